"""Processes of ours: started with a log, awaited, and ended with all they started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PROC = Path("/proc")
GRACE = 15.0
"""Seconds to end by itself before it is killed."""


class Child:
    """One process in a session of its own, so that its children can be told."""

    def __init__(
        self, name: str, arguments: Sequence[str], env: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                arguments,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id, which is its session's too."""
        return self.process.pid

    def wait_for(self, url: str, text: str, timeout: float) -> float:
        """Wait until the page at ``url`` has ``text``; the seconds that took."""
        started = time.monotonic()

        def ready() -> bool:
            assert self.process.poll() is None, f"{self.name} ended: {self.tail()}"
            return text in fetch(url)

        until(ready, timeout, f"{self.name} at {url} to show {text!r}")
        return time.monotonic() - started

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([str(self.log), *lines[-8:]])

    def members(self, title: str = "") -> Iterator[int]:
        """Processes of its session whose command line begins with ``title``."""
        for entry in PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                state, session = _state_and_session(entry)
                line = (entry / "cmdline").read_bytes()
                ours = session == self.pid and state != "Z"
                if ours and line.startswith(title.encode()):
                    yield int(entry.name)

    def terminate(self, timeout: float = GRACE) -> tuple[int, float]:
        """SIGTERM; the exit status, and how many seconds it took to end."""
        started = time.monotonic()
        self.process.terminate()
        status = self.process.wait(timeout)
        return status, time.monotonic() - started

    def stop(self) -> None:
        """End it and whatever it started; safe when it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process.poll() is None:
                self.terminate()
        # A worker whose parent was killed may outlive it.
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(GRACE)


def until(ready: Callable[[], T], timeout: float, what: str) -> T:
    """Wait for something true, at most so many seconds."""
    deadline = time.monotonic() + timeout
    while not (result := ready()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.1)
    return result


def fetch(url: str, timeout: float = 5.0) -> str:
    """The body of a page of ours; empty while it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except OSError:
        return ""


def _state_and_session(entry: Path) -> tuple[str, int]:
    fields = (entry / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return fields[0], int(fields[3])


def free_port(highest: int = 32767) -> int:
    """A free TCP port of loopback, low enough for Dynamo's signed 16 bit."""
    for port in range(highest - os.getpid() % 997, 1024, -13):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port
    raise AssertionError("no free port")


_GIVEN: set[int] = set()
