"""A real Pushgateway, and a real Prometheus that scrapes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from tests.real.child import Child, fetch, free_port

OURS = ("llm_worker_", "num_loaded_models_")
Labels = dict[str, str]


class Gateway:
    """Both, on loopback, with their data in ``work``."""

    def __init__(self, binaries: Path, work: Path, env: dict[str, str]) -> None:
        port, own = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._prometheus_url = f"http://127.0.0.1:{own}"
        config = work / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            "- job_name: pushgateway\n"
            "  honor_labels: true\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n",
            encoding="utf-8",
        )
        self._children = [
            Child(
                "the Pushgateway",
                [
                    _binary(binaries, "prometheus-pushgateway"),
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--persistence.file=",
                ],
                env,
                work / "pushgateway.log",
            ),
            Child(
                "Prometheus",
                [
                    _binary(binaries, "prometheus"),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={work / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{own}",
                ],
                env,
                work / "prometheus.log",
            ),
        ]

    def start(self) -> None:
        """Wait until both are ready."""
        gateway, prometheus = self._children
        gateway.wait_for(f"{self.url}/-/ready", "OK", 20)
        prometheus.wait_for(f"{self._prometheus_url}/-/ready", "Ready", 20)

    def stop(self) -> None:
        """End both."""
        for child in self._children:
            child.stop()

    def pushed(self) -> dict[str, list[tuple[Labels, float]]]:
        """Our series on the gateway's own page, by name."""
        found: dict[str, list[tuple[Labels, float]]] = {}
        for family in text_string_to_metric_families(fetch(f"{self.url}/metrics")):
            for sample in family.samples:
                if sample.name.startswith(OURS):
                    series = found.setdefault(sample.name, [])
                    series.append((dict(sample.labels), sample.value))
        return found

    def group(self, worker: str) -> dict[str, float]:
        """The numbers of one worker's group; the states as ``llm_worker_state/…``."""
        return {
            f"{name}/{labels['state']}" if "state" in labels else name: value
            for name, series in self.pushed().items()
            for labels, value in series
            if labels["worker"] == worker
        }

    def query(self, expression: str) -> list[tuple[Labels, float]]:
        """What Prometheus answers."""
        url = f"{self._prometheus_url}/api/v1/query?query={quote(expression)}"
        answer = json.loads(fetch(url) or '{"data": {"result": []}}')
        return [(r["metric"], float(r["value"][1])) for r in answer["data"]["result"]]


def _binary(unpacked: Path, name: str) -> str:
    return shutil.which(name) or str(unpacked / "usr/bin" / name)
