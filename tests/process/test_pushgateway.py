from __future__ import annotations

import os
import re
import signal
import time

import pytest

from sidecar.simulator import SimulatedWorker
from tests.process.conftest import StartDaemon
from tests.process.daemon import Daemon
from tests.process.debian import Pushgateway
from tests.process.sockets import Silence
from tests.process.waiting import until
from tests.process.workers import SIGNAL, TAG

pytestmark = pytest.mark.process

POLL = 0.2
GROUP = {"job": "capacity-sidecar", "tag": TAG, "worker": "gpu-1"}


def signal_at(gateway: Pushgateway) -> list[float]:
    return gateway.values(SIGNAL, **GROUP)


def polls_go_on(daemon: Daemon, polls: int = 5) -> None:
    """Wait for so many more polls; they must come in step."""
    before, began = daemon.value("sidecar_polls_total"), time.monotonic()
    daemon.wait_for("sidecar_polls_total", above=before + polls - 1)
    assert time.monotonic() - began < 3 * polls * POLL


def test_worker_that_stays_away_is_deleted_and_comes_back(
    worker: SimulatedWorker, gateway: Pushgateway, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(
        SIDECAR_TARGETS=worker.url,
        SIDECAR_WORKER="gpu-1",
        SIDECAR_PUSHGATEWAY_URL=gateway.url,
        SIDECAR_RETIRE_AFTER="1s",
    )
    until(lambda: signal_at(gateway), "the worker's signal")

    worker.stop()
    stopped = time.monotonic()
    until(lambda: not gateway.groups(), "the group is deleted")
    assert time.monotonic() - stopped > 0.8
    assert daemon.value(SIGNAL) == 0

    worker.start()
    until(lambda: signal_at(gateway), "the signal is back")

    status, seconds = daemon.end()
    assert (status, gateway.groups()) == (0, [])
    assert seconds < 2


def test_gateway_may_come_late_and_die(
    worker: SimulatedWorker, stopped_gateway: Pushgateway, start_daemon: StartDaemon
) -> None:
    gateway = stopped_gateway
    daemon = start_daemon(
        SIDECAR_TARGETS=worker.url,
        SIDECAR_WORKER="gpu-1",
        SIDECAR_PUSHGATEWAY_URL=gateway.url,
    ).wait_for_page()
    daemon.wait_for("sidecar_publishes_total", outcome="failed", above=1)
    polls_go_on(daemon)
    assert daemon.value("sidecar_dropped_total", reason="unreachable") > 1

    gateway.start()
    until(lambda: signal_at(gateway), "the signal, once the gateway is up")

    gateway.kill()
    failed = daemon.value("sidecar_publishes_total", outcome="failed")
    daemon.wait_for("sidecar_publishes_total", outcome="failed", above=failed + 2)
    polls_go_on(daemon)
    assert daemon.value(SIGNAL) > 1

    gateway.start()
    until(lambda: signal_at(gateway), "the signal, once the gateway is back")
    assert len(daemon.logged("pushgateway: cannot publish")) <= 2
    gateway.kill()
    assert daemon.end()[0] == 0


def test_gateway_that_hangs_delays_neither_polls_nor_the_end(
    worker: SimulatedWorker, silence: Silence, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(
        SIDECAR_TARGETS=worker.url,
        SIDECAR_PUSHGATEWAY_URL=f"http://{silence.address}",
        SIDECAR_PUSHGATEWAY_TIMEOUT="1m",
    ).wait_for_page()
    until(silence.has_caller, "a push hangs")

    polls_go_on(daemon, polls=10)
    first = daemon.wait_for(SIGNAL)
    until(lambda: daemon.value(SIGNAL) != first, "the own page goes on")

    asked = time.monotonic()
    os.kill(daemon.pid, signal.SIGTERM)
    until(lambda: daemon.logged("stopping"), "it is stopping")
    os.kill(daemon.pid, signal.SIGINT)
    status, _ = daemon.end()
    assert status == 0
    assert time.monotonic() - asked < 5
    assert daemon.logged("pushgateway did not end in time")


def test_refusal_is_logged_once_with_the_gateways_reason(
    worker: SimulatedWorker, gateway: Pushgateway, start_daemon: StartDaemon
) -> None:
    gateway.push("somebody-else", f"# TYPE {SIGNAL} counter\n{SIGNAL} 1\n")
    daemon = start_daemon(
        SIDECAR_TARGETS=worker.url,
        SIDECAR_WORKER="gpu-1",
        SIDECAR_PUSHGATEWAY_URL=gateway.url,
    ).wait_for_page()
    daemon.wait_for("sidecar_dropped_total", reason="http_400", above=4)

    said = daemon.logged("answers 400 to PUT")
    assert 1 <= len(said) <= 2
    assert f'collected metric "{SIGNAL}"' in said[0]
    assert re.search(r"is not a (COUNTER|GAUGE)$", said[0])
    polls_go_on(daemon)
    assert daemon.value(SIGNAL) > 1

    gateway.delete("somebody-else")
    until(lambda: signal_at(gateway), "the signal, once nothing clashes")
    (value,) = signal_at(gateway)
    assert value > 1
    assert daemon.end()[0] == 0
