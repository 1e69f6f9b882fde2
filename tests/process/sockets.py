"""Sockets that misbehave, and ports that nobody else takes."""

from __future__ import annotations

import select
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port on loopback that refuses connections until a server of ours takes it.

    It stays bound, without listening, so that no other process is given it; a server
    that sets SO_REUSEADDR, as Python's and Go's do, may listen on it all the same.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


class Silence:
    """Accepts connections (the kernel does) and never answers."""

    def __init__(self) -> None:
        """Listen from now on."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def has_caller(self) -> bool:
        """Whether a connection waits that was not answered."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def answer_one(self, page: str) -> None:
        """Answer the first request that waits, and close."""
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\n\r\n"
            connection.sendall((head + page).encode())

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def __enter__(self) -> Silence:
        """Listen."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


class Echo(ThreadingHTTPServer):
    """Refuses everything, and says in the body which credentials it was shown."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen from now on; answer once `serving` is entered."""
        super().__init__(("127.0.0.1", 0), _Echoing)
        self.address = f"127.0.0.1:{self.server_port}"
        self.shown: list[str] = []

    @contextmanager
    def serving(self) -> Iterator[Echo]:
        """Answer on a thread."""
        thread = threading.Thread(target=self.serve_forever, args=[0.02], daemon=True)
        thread.start()
        with self:
            yield self
            self.shutdown()
        thread.join()


class _Echoing(BaseHTTPRequestHandler):
    server: Echo

    def do_GET(self) -> None:
        """Answer 401 with the header as it came and, if basic, in clear."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        shown = self.headers.get("Authorization", "")
        kind, _, value = shown.partition(" ")
        clear = b64decode(value).decode() if kind == "Basic" else value
        self.server.shown.append(shown)
        body = f"you said {shown}, which is {clear}; unknown".encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_DELETE = do_GET  # noqa: N815 - http.server names them

    def log_message(self, *args: Any) -> None:
        """Stay silent."""
