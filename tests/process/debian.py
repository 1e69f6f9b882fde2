"""Debian's own Pushgateway and Prometheus, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.waiting import until
from tests.process.web import Sample, answers, fetch, fetch_json, samples


def binary(name: str, package: str) -> str:
    """The path of a program. Where it is missing a test is skipped, on CI it fails."""
    found = shutil.which(name)
    if found is None:
        missing = f"{name} is not installed (Debian: apt-get install {package})"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Server:
    """A program that serves on one port; can be killed and started again."""

    def __init__(self, port: int, log: Path, *command: str) -> None:
        """Prepare; `start` starts it."""
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it and wait until it is ready."""
        command = [*self._command, *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._is_ready, f"{self._command[0]} is ready, see {self._log}")

    def kill(self) -> None:
        """End it without letting it do anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        return answers(f"{self.url}/-/ready")


class Pushgateway(Server):
    """It forgets everything when it ends."""

    def __init__(self, port: int, directory: Path) -> None:
        """Prepare; `start` starts it."""
        super().__init__(
            port,
            directory / f"pushgateway-{port}.log",
            binary("prometheus-pushgateway", "prometheus-pushgateway"),
            f"--web.listen-address=127.0.0.1:{port}",
            "--persistence.file=",
        )

    def groups(self) -> list[dict[str, str]]:
        """The grouping labels of all groups; a refused push leaves one, too."""
        found = fetch_json(f"{self.url}/api/v1/metrics")["data"]
        return [group["labels"] for group in found]

    def samples(self, **labels: str) -> list[Sample]:
        """All samples of the gateway's page with these labels."""
        found = samples(fetch(f"{self.url}/metrics"))
        return [s for s in found if labels.items() <= s.labels.items()]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of one metric, of all series with these labels."""
        return [
            sample.value for sample in self.samples(**labels) if sample.name == name
        ]

    def push(self, job: str, body: str) -> None:
        """Push as somebody else."""
        fetch(f"{self.url}/metrics/job/{job}", "PUT", body.encode())

    def delete(self, job: str) -> None:
        """Take somebody else's group away."""
        fetch(f"{self.url}/metrics/job/{job}", "DELETE")


class Prometheus(Server):
    """Scrapes its targets three times a second."""

    def __init__(
        self,
        port: int,
        directory: Path,
        jobs: list[dict[str, Any]],
        rules: Path | None = None,
    ) -> None:
        """Prepare; `start` starts it.

        Args:
            jobs: the scrape configurations.
            rules: a file of recording rules and alerts.
        """
        config = directory / "prometheus.json"
        pace = {"scrape_interval": "300ms", "scrape_timeout": "300ms"}
        whole = {
            "global": pace,
            "rule_files": [str(rules)] if rules else [],
            "scrape_configs": jobs,
        }
        # JSON is YAML.
        config.write_text(json.dumps(whole))
        super().__init__(
            port,
            directory / f"prometheus-{port}.log",
            binary("prometheus", "prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )

    def query(self, promql: str, **options: str) -> list[dict[str, Any]]:
        """Ask for an instant vector or a range, now or at the option ``time``."""
        answer = fetch_json(f"{self.url}/api/v1/query", query=promql, **options)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found
