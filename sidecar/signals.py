"""Asking the process to stop: SIGTERM and SIGINT, also as process 1.

Only the standard library's lightest parts: this is imported before anything slow, so
that a signal during the start is not lost.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType


class StopRequest:
    """Set by the first SIGTERM or SIGINT; SIGHUP is ignored.

    A pipe rather than ``threading.Event``: a handler that runs while the main thread
    holds the event's lock would wait for itself.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def install(self) -> None:
        """Take the signals over; main thread only."""
        # The kernel may choose any thread. Then Python's handler would run only when
        # the main thread wakes, but this descriptor is written to at once.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def uninstall(self) -> None:
        """Give the signals back: for commands that simply end on Ctrl-C."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)

    def set(self) -> None:
        """Ask to stop, as a signal does."""
        # A full pipe was asked often enough.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until asked, at most ``timeout`` seconds; whether it was asked."""
        ready, _, _ = select.select([self._read], [], [], timeout)
        return bool(ready)

    def _handle(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.set()
