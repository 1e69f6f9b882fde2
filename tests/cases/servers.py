"""Real HTTP servers on loopback that answer as a case says and keep what they got."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

PATIENCE = 20.0
"""Seconds after which a test gives up on something that never comes."""

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
_PACE = 0.02


@dataclass(frozen=True)
class Request:
    """What a client sent; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What it gets.

    Attributes:
        hangs: send nothing at all, until the client goes away.
        dribbles: send the body byte by byte for as long as the client stays.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    hangs: bool = False
    dribbles: bool = False


def page(body: bytes) -> Answer:
    """A metrics page."""
    return Answer(headers=_TEXT, body=body)


def always(answer: Answer) -> Callable[[Request], Answer]:
    """The same answer to every request."""
    return lambda _: answer


def worker_page(finished: int, running: int = 2) -> Answer:
    """The page of a worker, for cases that bring none."""
    own = 'engine="0",model_name="org/m1"'
    lines = [
        f"vllm:num_requests_running{{{own}}} {running}",
        f'vllm:request_success_total{{{own},finished_reason="stop"}} {finished}',
    ]
    return page("".join(f"{line}\n" for line in lines).encode())


class Server:
    """Answers every request by ``answer``, which may be replaced at any time.

    Args:
        host: the loopback address, or all of them, to listen on.
        listening: False: the port is taken but refuses connections until ``open``.

    Attributes:
        requests: all that came, in order.
        most_at_once: how many were under way at the same time, at most.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        host: str = "127.0.0.1",
        *,
        listening: bool = True,
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._under_way = 0
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._listener = _listener(host, self)
        self._thread: threading.Thread | None = None
        self._listener.server_bind()
        if listening:
            self.open()

    @property
    def port(self) -> int:
        """The port, free when the server was made."""
        port: int = self._listener.server_address[1]
        return port

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen from now on."""
        self._listener.server_activate()
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=[_PACE], daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Refuse connections and end those there are; safe twice."""
        if self._thread is not None:
            self._listener.shutdown()
        self._listener.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait_for(self, count: int, method: str = "GET") -> None:
        """Wait until so many requests of the method have come."""

        def came() -> bool:
            return sum(each.method == method for each in self.requests) >= count

        with self._changed:
            assert self._changed.wait_for(came, PATIENCE), self.requests

    def settle(self) -> None:
        """Wait until nothing is under way: a client that left may not be missed yet."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._under_way, PATIENCE)

    def take(self, request: Request) -> Answer:
        """One more request is under way."""
        with self._changed:
            self.requests.append(request)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            self._changed.notify_all()
        return self.answer(request)

    def done(self) -> None:
        """One less."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def opened(self, connection: socket.socket) -> None:
        """A client came."""
        self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """A client left."""
        self._connections.discard(connection)


def _listener(host: str, owner: Server) -> ThreadingTCPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            owner.opened(self.connection)

        def finish(self) -> None:
            owner.closed(self.connection)
            super().finish()

        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            body = self.rfile.read(length)
            answer = owner.take(Request(self.command, self.path, headers, body))
            try:
                self._send(answer)
            finally:
                owner.done()

        do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - http.server names them

        def _send(self, answer: Answer) -> None:
            if answer.hangs:
                self.close_connection = True
                self.connection.recv(1)
                return
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            if not answer.dribbles:
                self.wfile.write(answer.body)
                return
            self.close_connection = True
            for byte in answer.body:
                gone, _, _ = select.select([self.connection], [], [], _PACE)
                if gone:
                    return
                self.wfile.write(bytes([byte]))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing to standard error."""

    class Listener(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        request_queue_size = 20

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away is part of the case."""

    return Listener((host, 0), Handler, bind_and_activate=False)
