"""What systemd is told: sd_notify(3), and the watchdog that the loop feeds.

The protocol is one datagram of ``NAME=value`` lines to the socket in NOTIFY_SOCKET;
podman and s6 speak it as well. Where nobody listens, nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping

from sidecar.errors import SettingsError

BEATS_IN_A_WATCH = 2
"""sd_watchdog_enabled(3): notify every half of the time."""

LONGEST_STATUS = 1000
"""Bytes. A message of more than 4096 is dropped whole, readiness and all."""


class ServiceManager:
    """The manager of this process, if there is one.

    Args:
        environ: where NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID stand.
        pid: of this process: a watchdog of another one is not ours to feed.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, pid: int | None = None
    ) -> None:
        environ = os.environ if environ is None else environ
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._is_ready = False
        self._is_stopping = False
        self._status = ""
        self.watchdog = _watchdog(environ, os.getpid() if pid is None else pid)

    @property
    def beat_interval(self) -> float | None:
        """Seconds between two beats of the loop; None: the loop's own pace will do."""
        return self.watchdog / BEATS_IN_A_WATCH if self.watchdog else None

    def beat(self, status: str) -> None:
        """The loop turns, and this is its state in a line. The first is readiness."""
        if self._is_stopping:
            return
        lines = []
        if not self._is_ready:
            lines.append("READY=1")
        if status != self._status:
            lines.append(f"STATUS={_one_line(status)}")
        if self.watchdog:
            lines.append("WATCHDOG=1")
        if self._send(lines):
            self._is_ready, self._status = True, status

    def stopping(self) -> None:
        """The process was asked to stop: the last that is told."""
        self._is_stopping = True
        self._send(["STOPPING=1", "STATUS=stopping"])

    @contextlib.contextmanager
    def told_what_is_wrong(self) -> Iterator[None]:
        """A wrong setting in this block becomes the status that the process leaves."""
        try:
            yield
        except SettingsError as error:
            self._send([f"STATUS={_one_line(str(error))}"])
            raise

    def _send(self, lines: list[str]) -> bool:
        """Whether it was taken, or nobody is there to take it."""
        if not self._address or not lines:
            return True
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            # A manager that is away or busy is no reason not to measure.
            return False
        return True


def _address(text: str) -> str:
    """A path, or the name of an abstract socket; "" for what is neither."""
    if text.startswith("@"):
        return f"\0{text[1:]}"
    return text if text.startswith("/") else ""


def _watchdog(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds in which the manager must hear from this process; None: it need not."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    usec = environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1e6 if usec.isdecimal() and int(usec) else None


def _one_line(text: str) -> str:
    encoded = "; ".join(text.splitlines()).encode(errors="replace")
    if len(encoded) <= LONGEST_STATUS:
        return encoded.decode()
    return f"{encoded[:LONGEST_STATUS].decode(errors='ignore')}…"
