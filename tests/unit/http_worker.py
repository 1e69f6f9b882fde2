"""A real HTTP server whose answers a test writes, one after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sidecar.target import Target, parse

Script = Callable[[str], bytes]
"""From the request's first line to the raw answer; empty closes the connection."""


CLOSE = b"<close>"
"""At the end of an answer: close the connection after it."""


@dataclass
class Peer:
    """Where the server is, and what it was asked."""

    target: Target
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    @property
    def paths(self) -> list[str]:
        """The path of every request, without its query."""
        return [text.split()[1].partition("?")[0] for text in self.requests]


def answer(body: str | bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole HTTP answer with its length."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw


@contextmanager
def peer(script: Script, host: str = "127.0.0.1") -> Iterator[Peer]:
    """Serve raw answers on a free port until the block ends."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.bind((host, 0))
    listener.listen()
    port = listener.getsockname()[1]
    found = Peer(parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
    open_sockets: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            while True:
                head = b""
                while line := reader.readline():
                    head += line
                    if line == b"\r\n":
                        break
                if not head.endswith(b"\r\n\r\n"):
                    return
                found.requests.append(head.decode())
                raw = script(head.decode().splitlines()[0])
                if not raw:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(raw.removesuffix(CLOSE))
                if raw.endswith(CLOSE):
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            found.connections += 1
            open_sockets.append(connection)
            threading.Thread(target=_quietly, args=[serve, connection]).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in open_sockets:
            _quietly(socket.socket.shutdown, each, socket.SHUT_RDWR)
        thread.join()


def _quietly(call: Callable[..., None], *arguments: object) -> None:
    # The other side has gone, which is what some tests are about.
    with suppress(OSError):
        call(*arguments)
