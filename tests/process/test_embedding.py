from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import structlog

import sidecar
from sidecar.errors import SettingsError
from sidecar.simulator import SimulatedWorker
from tests.process.commands import ROOT, environ
from tests.process.debian import Pushgateway
from tests.process.waiting import until
from tests.process.workers import SIGNAL, TAG

pytestmark = pytest.mark.process

GROUP = {"job": "capacity-sidecar", "tag": TAG, "worker": "gpu-1"}
SETTINGS = {"worker": "gpu-1", "poll_interval": "200ms", "log_level": "error"}


class Server:
    """What a host has in hand: the object that owns the server process."""


def signal_at(gateway: Pushgateway) -> list[float]:
    return gateway.values(SIGNAL, **GROUP)


def our_threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return sorted(name for name in names if name.startswith("sidecar"))


def pushing_to(gateway: Pushgateway) -> dict[str, Any]:
    return {**SETTINGS, "pushgateway": {"url": gateway.url, "interval": "300ms"}}


def test_follows_the_life_of_the_server(
    worker: SimulatedWorker, gateway: Pushgateway
) -> None:
    url = worker.url
    worker.stop()
    server = Server()
    attachment = sidecar.attach(server, url=url, **pushing_to(gateway))
    until(lambda: "sidecar-loop" in our_threads(), "the thread runs")
    assert attachment.is_running
    assert gateway.groups() == []

    worker.start()
    until(lambda: signal_at(gateway), "the signal, once the server answers")

    del server
    gc.collect()
    until(lambda: not attachment.is_running, "the end, once the server is gone")
    assert gateway.groups() == []
    until(lambda: not our_threads(), "the threads end")


def test_stop_retires_and_ends(worker: SimulatedWorker, gateway: Pushgateway) -> None:
    server = Server()
    attachment = sidecar.attach(server, url=worker.url, **pushing_to(gateway))
    until(lambda: signal_at(gateway), "readings")

    attachment.stop()

    assert gateway.groups() == []
    assert not attachment.is_running
    until(lambda: not our_threads(), "the threads end")
    attachment.stop()


def test_disabled_does_nothing(
    worker: SimulatedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIDECAR_ENABLED", "false")
    before = threading.enumerate()

    attachment = sidecar.attach(Server(), url=worker.url)

    assert threading.enumerate() == before
    assert not attachment.is_running
    assert attachment.url is None
    attachment.stop()


def test_wrong_setting_is_refused_before_a_thread_starts() -> None:
    before = threading.enumerate()

    with pytest.raises(SettingsError, match=r"SIDECAR_POLL_INTERVAL='5 days'"):
        sidecar.attach(Server(), url="127.0.0.1:8000", poll_interval="5 days")
    with pytest.raises(SettingsError, match="weakly"):
        sidecar.attach(object(), url="127.0.0.1:8000")

    assert threading.enumerate() == before


def test_host_is_left_as_it_was(worker: SimulatedWorker) -> None:
    def host() -> list[object]:
        registry = prometheus_client.REGISTRY
        own = prometheus_client.Counter("host", "", registry=None)
        return [
            logging.getLogger().level,
            list(logging.getLogger().handlers),
            {n: logging.getLogger(n).level for n in logging.root.manager.loggerDict},
            structlog.is_configured(),
            {family.name for family in registry.collect()},
            [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)],
            [s.name for family in own.collect() for s in family.samples],
            sys.excepthook,
            threading.excepthook,
        ]

    before = host()
    server = Server()
    attachment = sidecar.attach(server, url=worker.url, **SETTINGS)
    until(lambda: "sidecar-loop" in our_threads(), "the thread runs")

    assert str(host()) == str(before)
    attachment.stop()
    until(lambda: not our_threads(), "the threads end")
    assert str(host()) == str(before)


SCRIPT = """
import sys, time, sidecar

class Server: pass

server = Server()
sidecar.attach(server, url=sys.argv[1], worker="gpu-1")
print("attached", flush=True)
sys.stdin.readline()
"""


def test_host_that_ends_retires(
    worker: SimulatedWorker, gateway: Pushgateway, tmp_path: Path
) -> None:
    script = tmp_path / "host.py"
    script.write_text(SCRIPT)
    settings = {
        "PYTHONPATH": str(ROOT),
        "SIDECAR_POLL_INTERVAL": "200ms",
        "SIDECAR_PUSHGATEWAY_URL": gateway.url,
    }
    with subprocess.Popen(
        [sys.executable, str(script), worker.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ(settings),
    ) as process:
        until(lambda: signal_at(gateway), "readings")
        out, err = process.communicate("\n", timeout=10)

    assert process.returncode == 0
    assert out == "attached\n"
    assert "Traceback" not in err
    assert gateway.groups() == []
