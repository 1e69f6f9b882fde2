"""What a real daemon tells a service manager: its messages, in their order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.simulator import SimulatedWorker
from tests.process.conftest import StartDaemon
from tests.process.waiting import until

pytestmark = pytest.mark.process


class Manager:
    """Listens as systemd does."""

    def __init__(self, address: str) -> None:
        self.messages: list[dict[str, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def told(self, name: str) -> list[str]:
        """All values of a name so far."""
        while True:
            try:
                lines = self._socket.recv(8192).decode().splitlines()
            except BlockingIOError:
                break
            pairs = (line.partition("=") for line in lines)
            self.messages.append({key: value for key, _, value in pairs})
        return [message[name] for message in self.messages if name in message]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """A watchdog of two seconds, to be fed each second."""
    return {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}


def test_from_its_start_to_its_end(
    manager: Manager,
    watched: dict[str, str],
    worker: SimulatedWorker,
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(watched, SIDECAR_TARGETS=worker.url)
    until(lambda: "capacity" in " ".join(manager.told("STATUS")), "a capacity")

    status, _ = daemon.end()

    assert status == 0
    assert manager.messages[0]["READY"] == "1"
    assert manager.told("READY") == ["1"]
    assert manager.messages[-1] == {"STOPPING": "1", "STATUS": "stopping"}


def test_the_watchdog_is_fed_while_it_waits_for_an_hour(
    manager: Manager, watched: dict[str, str], start_daemon: StartDaemon
) -> None:
    start_daemon(watched, SIDECAR_POLL_INTERVAL="1h")

    until(lambda: len(manager.told("WATCHDOG")) > 3, "it is fed")


def test_the_watchdog_is_fed_by_the_loop_and_nobody_else(
    manager: Manager,
    watched: dict[str, str],
    worker: SimulatedWorker,
    start_daemon: StartDaemon,
    tmp_path: Path,
) -> None:
    """A third party's estimator hangs; the page, on its own threads, still answers."""
    plugin = "import time\ndef build(*_):\n    time.sleep(3600)\n"
    (tmp_path / "hanging.py").write_text(plugin)
    about = tmp_path / "hanging-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\n")
    points = "[sidecar.estimators]\nhanging = hanging:build\n"
    (about / "entry_points.txt").write_text(points)

    daemon = start_daemon(
        {**watched, "PYTHONPATH": str(tmp_path)},
        SIDECAR_TARGETS=worker.url,
        SIDECAR_ESTIMATOR="hanging",
    ).wait_for_page()
    until(lambda: manager.told("READY"), "it is up")
    watch_over = time.monotonic() + 2.5
    until(lambda: time.monotonic() > watch_over, "a watch is over")
    # As systemd would when nothing more comes.
    os.kill(daemon.pid, signal.SIGABRT)

    assert daemon.process.wait(10) == -signal.SIGABRT
    assert len(manager.told("WATCHDOG")) == 1
    assert "hanging.py" in daemon.err.read_text()


def test_a_wrong_setting_is_what_it_leaves(
    manager: Manager, watched: dict[str, str], start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(watched, SIDECAR_POLL_INTERVAL="often")

    assert daemon.process.wait(10) == 2
    (status,) = manager.told("STATUS")
    assert status.startswith("SIDECAR_POLL_INTERVAL='often' is not a duration")
    assert manager.told("READY") == []
