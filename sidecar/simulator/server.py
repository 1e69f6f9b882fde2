"""A simulated worker behind HTTP, with the two handlers that a real vLLM has.

`/metrics` gives the whole page whatever it is asked; `/metrics/` honours `?name[]=` and
sends in chunks. The engine runs only when it is looked at: each request advances it to
the clock's time.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sidecar.simulator.engine import Engine
from sidecar.simulator.load import Load
from sidecar.simulator.page import render


class SimulatedWorker:
    """An engine on 127.0.0.1, with or without load of its own.

        with SimulatedWorker(engine, load) as worker:
            httpx.get(worker.url)

    May be stopped and started again, and comes back on the same port.
    """

    def __init__(
        self,
        engine: Engine,
        load: Load | None = None,
        *,
        port: int = 0,
        clock: Callable[[], float] = time.monotonic,
        epoch: float | None = None,
    ) -> None:
        """Prepare a worker; `start` opens its port.

        Args:
            engine: started at a time of `clock`.
            load: what submits requests; without one the engine is only advanced.
            port: 0 lets the system choose.
            clock: the engine's time, in seconds.
            epoch: Unix time at 0 of the clock; None reads it from the system's.
        """
        self.port = port
        self._engine = engine
        self._load = load
        self._clock = clock
        self._epoch = time.time() - clock() if epoch is None else epoch
        self._lock = threading.Lock()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """URL of the metrics page."""
        return f"http://127.0.0.1:{self.port}/metrics"

    @contextlib.contextmanager
    def locked(self) -> Iterator[Engine]:
        """Hold the engine, advanced to the clock's time: to read it or to break it."""
        with self._lock:
            now = self._clock()
            if self._load is None:
                self._engine.advance(now)
            else:
                self._load.feed(self._engine, now)
            yield self._engine

    def page(self, names: set[str] | None = None) -> str:
        """Return the page as of the clock's time, or only the samples of `names`."""
        with self.locked() as engine:
            return render(engine, names, epoch=self._epoch)

    def start(self) -> None:
        """Open the port and serve from a thread; does nothing if it serves."""
        if self._server is None:
            self._server = _Server(self.port, self.page)
            self.port = self._server.server_port
            self._server.start()

    def stop(self) -> None:
        """Close the port and every connection; does nothing if it is closed."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> SimulatedWorker:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()


class _Server(ThreadingHTTPServer):
    """An HTTP server that also ends the connections that clients keep alive."""

    daemon_threads = True

    def __init__(self, port: int, page: Callable[[set[str] | None], str]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.page = page
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client goes away before its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET on the two paths; keeps the connection and says nothing."""

    protocol_version = "HTTP/1.1"
    # Head and body are two writes: without this, Nagle holds the second for 40 ms.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/metrics":
            self._answer(200, "1.0.0", self.server.page(None), chunked=False)
        elif url.path == "/metrics/":
            names = set(parse_qs(url.query).get("name[]", ())) or None
            self._answer(200, "0.0.4", self.server.page(names), chunked=True)
        else:
            self._answer(404, "0.0.4", "Not Found\n", chunked=False)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""

    def _answer(self, status: int, version: str, text: str, *, chunked: bool) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header(
            "Content-Type", f"text/plain; version={version}; charset=utf-8"
        )
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
            # An empty chunk would end the body, so an empty page is the end alone.
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = chunk + b"0\r\n\r\n"
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
