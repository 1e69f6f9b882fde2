from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidecar.simulator import SimulatedWorker
from tests.process.commands import ROOT, environ
from tests.process.conftest import StartDaemon
from tests.process.daemon import Daemon
from tests.process.sockets import Silence
from tests.process.waiting import until

pytestmark = pytest.mark.process

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
AT_ONCE = 2.0
SOON = 5.0
"""Where the process has yet to load everything before it can end."""


def status_of(pid: int) -> dict[str, str]:
    """Linux's own page about a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def handles(pid: int, signum: int) -> bool:
    """Whether the process has a handler of its own for the signal."""
    return bool(int(status_of(pid)["SigCgt"], 16) >> (signum - 1) & 1)


def pending(pid: int) -> bool:
    """Whether a signal waits to be delivered to the process."""
    status = status_of(pid)
    return bool(int(status["ShdPnd"], 16) | int(status["SigPnd"], 16))


def wait_for_handlers(pid: int) -> None:
    until(lambda: handles(pid, signal.SIGTERM), "the process handles SIGTERM")


def wait_until_ready(daemon: Daemon) -> None:
    daemon.wait_for_page()
    until(lambda: daemon.value("sidecar_polls_total", outcome="ok") > 0, "a poll")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_the_sleep_of_a_long_interval(
    worker: SimulatedWorker, start_daemon: StartDaemon, signum: int
) -> None:
    daemon = start_daemon(SIDECAR_TARGETS=worker.url, SIDECAR_POLL_INTERVAL="1h")
    wait_until_ready(daemon)

    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: not pending(daemon.pid), "SIGHUP was delivered")
    assert daemon.value("sidecar_polls_total") == 1

    status, seconds = daemon.end(signum)
    assert status == 0
    assert seconds < AT_ONCE
    assert daemon.log[-1]["event"] == "stopping"


@pytest.mark.parametrize("answered_first", [False, True])
def test_signal_during_a_scrape_that_hangs(
    worker: SimulatedWorker,
    silence: Silence,
    start_daemon: StartDaemon,
    answered_first: bool,
) -> None:
    daemon = start_daemon(SIDECAR_TARGETS=silence.address, SIDECAR_POLL_INTERVAL="1h")
    daemon.wait_for_page()
    until(silence.has_caller, "a scrape hangs")
    if answered_first:
        # The first look at a target and the polls are read by different parts.
        silence.answer_one(worker.page())
        until(silence.has_caller, "the next scrape hangs")

    status, seconds = daemon.end()
    assert status == 0
    assert seconds < SOON


HANDLERS_FIRST = """
import sys
from sidecar import __main__, signals

def install(self):
    slow = {"sidecar.cli", "pydantic", "requests", "structlog", "prometheus_client"}
    sys.exit(f"loaded already: {sorted(slow & sys.modules.keys())}")

signals.StopRequest.install = install
__main__.main()
"""


def test_handlers_are_installed_before_anything_slow_is_loaded() -> None:
    process = subprocess.run(
        [sys.executable, "-c", HANDLERS_FIRST],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=ROOT,
        env=environ({}),
    )

    assert process.stderr == "loaded already: []\n"


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_signal_soon_after_exec(start_daemon: StartDaemon, delay: float) -> None:
    """Once the handlers are there nothing is lost; before, the signal may kill."""
    daemon = start_daemon(SIDECAR_TARGETS="127.0.0.1:9", SIDECAR_POLL_INTERVAL="1h")
    due = time.monotonic() + delay
    until(lambda: time.monotonic() >= due, "the moment to send")

    handled = handles(daemon.pid, signal.SIGTERM)
    status, seconds = daemon.end()

    assert status in ({0} if handled else {0, -signal.SIGTERM})
    assert seconds < SOON
    assert "Traceback" not in daemon.err.read_text()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signal_as_soon_as_it_is_handled(
    start_daemon: StartDaemon, signum: int
) -> None:
    daemon = start_daemon(SIDECAR_TARGETS="127.0.0.1:9", SIDECAR_POLL_INTERVAL="1h")
    wait_for_handlers(daemon.pid)

    status, seconds = daemon.end(signum)

    assert status == 0
    assert seconds < SOON
    assert [line["event"] for line in daemon.log if line["level"] != "info"] == []


def in_a_namespace_of_its_own() -> tuple[str, ...]:
    """What makes a command process 1; skips where that is not possible."""
    if shutil.which(UNSHARE[0]) is None:
        pytest.skip("unshare is not installed (Debian: apt-get install util-linux)")
    tried = subprocess.run(
        [*UNSHARE, "true"], capture_output=True, text=True, timeout=20, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"process 1 needs a PID namespace: {tried.stderr.strip()}")
    return UNSHARE


@pytest.mark.parametrize(
    ("signum", "ready"),
    [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGINT, False)],
)
def test_signal_as_process_1(
    worker: SimulatedWorker, start_daemon: StartDaemon, signum: int, ready: bool
) -> None:
    daemon = start_daemon(
        prefix=in_a_namespace_of_its_own(),
        SIDECAR_TARGETS=worker.url,
        SIDECAR_POLL_INTERVAL="1h",
    )
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")
    until(children.read_text, "unshare starts the command")
    daemon.pid = int(children.read_text())
    wait_for_handlers(daemon.pid)
    if ready:
        wait_until_ready(daemon)
    assert status_of(daemon.pid)["NSpid"].split()[-1] == "1"

    status, seconds = daemon.end(signum)
    assert status == 0
    assert seconds < SOON
