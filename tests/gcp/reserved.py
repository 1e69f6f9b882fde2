"""A port that stays ours while nothing listens on it."""

from __future__ import annotations

import socket
import weakref


class ReservedPort:
    """A free loopback port, taken but refusing connections.

    A server that binds it with ``SO_REUSEPORT`` gets the connections; when that server
    stops they are refused again, and no other process can have got the port meanwhile.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        share(self._socket)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        weakref.finalize(self, self._socket.close)

    def close(self) -> None:
        """Give it up; safe twice, and done by itself when nobody holds it."""
        self._socket.close()


def share(listener: socket.socket) -> None:
    """Let the socket bind a reserved port."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
