"""Waiting for a name server no longer than for a worker."""

from __future__ import annotations

import contextlib
import socket
import threading

from sidecar import target


class Resolver:
    """Asks for one host on a thread of its own, as the C library cannot be interrupted.

    Three name servers that are away cost it half a minute and more.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._asking: threading.Thread | None = None

    def answers(self, within: float) -> bool:
        """Whether there is an answer, a good or a bad one, within so many seconds."""
        if target.numeric(self._host) is not None:
            return True
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(
                target=self._ask, name="sidecar-resolver", daemon=True
            )
            self._asking.start()
        self._asking.join(within)
        return not self._asking.is_alive()

    def _ask(self) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            socket.getaddrinfo(self._host, None)
