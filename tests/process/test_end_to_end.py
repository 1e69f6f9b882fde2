from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.process.conftest import StartDaemon
from tests.process.daemon import Daemon
from tests.process.debian import Prometheus, Pushgateway, binary
from tests.process.sockets import reserved_port
from tests.process.waiting import until
from tests.process.web import fetch
from tests.process.workers import MODEL, SIGNAL, TAG, fast_worker

pytestmark = pytest.mark.process

OTHER_MODEL = "test/other-1B"
OTHER_SIGNAL = "num_loaded_models_test_other_1B"
READ_AT = "llm_worker_reading_timestamp_seconds"


@dataclass
class Chain:
    """Two workers, the daemon, the gateway, and Prometheus that scrapes both."""

    gateway: Pushgateway
    prometheus: Prometheus
    daemon: Daemon
    ports: tuple[int, int]

    def said(self, signal: str) -> dict[float, float]:
        """Every reading of the daemon, as its stdout sink writes it: time -> signal."""
        lines = map(json.loads, self.daemon.out.read_text().splitlines())
        return {line["time"]: line[signal] for line in lines if signal in line}

    def stored(self, signal: str, tag: str, job: str) -> dict[float, float]:
        """What Prometheus has: time of the reading -> signal, of the same scrapes."""
        where = f'{{tag="{tag}",job="{job}"}}[1m]'
        values = self._points(signal + where)
        times = self._points(READ_AT + where)
        return {times[at]: values[at] for at in times.keys() & values.keys()}

    def _points(self, promql: str) -> dict[float, float]:
        found = self.prometheus.query(promql)
        assert len(found) <= 1, found
        return {at: float(text) for series in found for at, text in series["values"]}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    directory = tmp_path_factory.mktemp("chain")
    with ExitStack() as stack:
        workers = [
            stack.enter_context(fast_worker(model)) for model in (MODEL, OTHER_MODEL)
        ]
        own, pushed, stored = (stack.enter_context(reserved_port()) for _ in range(3))
        gateway = Pushgateway(pushed, directory)
        stack.callback(gateway.kill)
        gateway.start()
        settings = {
            "SIDECAR_TARGETS": ",".join(worker.url for worker in workers),
            "SIDECAR_WORKER": "gpu-1",
            "SIDECAR_SINKS": "prometheus,pushgateway,stdout",
            "SIDECAR_PUSHGATEWAY_URL": gateway.url,
        }
        daemon = Daemon(directory, own, settings)
        stack.callback(daemon.close)
        jobs: list[dict[str, Any]] = [
            {
                "job_name": "gateway",
                "honor_labels": True,
                "static_configs": [{"targets": [gateway.address]}],
            },
            {
                "job_name": "own-page",
                "static_configs": [{"targets": [f"127.0.0.1:{own}"]}],
            },
        ]
        prometheus = Prometheus(stored, directory, jobs)
        stack.callback(prometheus.kill)
        prometheus.start()
        yield Chain(gateway, prometheus, daemon, (workers[0].port, workers[1].port))


def test_query_for_the_signal_answers_with_its_labels(chain: Chain) -> None:
    until(lambda: len(chain.prometheus.query(SIGNAL)) >= 2, "both ways lead there")

    found = {s["metric"]["job"]: s["metric"] for s in chain.prometheus.query(SIGNAL)}

    labels = {
        "__name__": SIGNAL,
        "tag": TAG,
        "worker": f"gpu-1:{chain.ports[0]}",
        "model_name": MODEL,
    }
    address = chain.daemon.url.removeprefix("http://")
    assert found["capacity-sidecar"] == {**labels, "job": "capacity-sidecar"}
    assert found["own-page"] == {**labels, "job": "own-page", "instance": address}


@pytest.mark.parametrize("job", ["capacity-sidecar", "own-page"])
@pytest.mark.parametrize(
    ("signal", "tag"), [(SIGNAL, TAG), (OTHER_SIGNAL, "test_other_1B")]
)
def test_prometheus_has_the_values_that_were_published(
    chain: Chain, job: str, signal: str, tag: str
) -> None:
    until(
        lambda: len(chain.stored(signal, tag, job)) >= 4,
        "Prometheus has four readings of the signal",
    )

    stored = chain.stored(signal, tag, job)

    until(
        lambda: stored.keys() <= chain.said(signal).keys(),
        "every reading in Prometheus is one that the daemon made",
    )
    said = chain.said(signal)
    assert stored == {at: said[at] for at in stored}
    assert len(set(stored.values())) > 1
    assert all(value > 1 for value in stored.values())


def test_own_page_passes_promtool(chain: Chain) -> None:
    chain.daemon.wait_for(SIGNAL)
    page = fetch(f"{chain.daemon.url}/metrics")

    checked = subprocess.run(
        [binary("promtool", "prometheus"), "check", "metrics"],
        input=page,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_query_answers_nothing_once_the_daemon_was_stopped(
    chain: Chain, start_daemon: StartDaemon
) -> None:
    with fast_worker("test/leaving") as worker:
        daemon = start_daemon(
            SIDECAR_TARGETS=worker.url, SIDECAR_PUSHGATEWAY_URL=chain.gateway.url
        )
        query = "num_loaded_models_test_leaving"
        until(lambda: chain.prometheus.query(query), f"Prometheus answers {query}")
        present = {group["tag"] for group in chain.gateway.groups()}

        status, seconds = daemon.end()

    assert "test_leaving" in present
    left = {group["tag"] for group in chain.gateway.groups()}
    assert left == present - {"test_leaving"}
    assert status == 0
    assert seconds < 2
    until(lambda: not chain.prometheus.query(query), "the series is gone")
