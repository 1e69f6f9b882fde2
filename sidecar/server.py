"""A small HTTP server: a table of paths, answered on threads of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from sidecar import target
from sidecar.errors import SettingsError

Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""

Routes = Mapping[str, Callable[[], Answer]]
"""Path -> what gives the answer, called on a thread of the server."""

TEXT = "text/plain; charset=utf-8"
SLOWEST_CLIENT = 10.0


class Server:
    """Serves on a thread.

    Args:
        listen: ``host:port``, an IPv6 host in brackets or not; port 0 is any free one.

    Raises:
        SettingsError: the address is taken or cannot be used.
    """

    def __init__(self, listen: str, routes: Routes) -> None:
        try:
            self._server = _server(*target.listen_address(listen), routes)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            msg = f"SIDECAR_LISTEN={listen!r} cannot be used: {reason}; choose another"
            hint = "address, 127.0.0.1:9847 say, or off for no page"
            raise SettingsError(f"{msg} {hint}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="sidecar-server", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the server listens."""
        host, port = self._server.server_address[:2]
        return f"http://{target.bracketed(str(host))}:{port}"

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; safe without ``start`` and twice."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _server(host: str, port: int, routes: Routes) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = SLOWEST_CLIENT
        server_version = "capacity-sidecar"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            route = routes.get(path) or routes.get(path.rstrip("/"))
            if route is None:
                known = ", ".join(sorted(routes))
                body = f"nothing here; there is {known}\n".encode()
                self._answer(HTTPStatus.NOT_FOUND, TEXT, body)
            else:
                self._answer(*route())

        do_HEAD = do_GET  # noqa: N815 - http.server names it

        def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Probes and scrapes come every few seconds: not worth a line."""

    class Listener(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        request_queue_size = 128

        def server_bind(self) -> None:
            """Without asking a name server for a name that nobody needs."""
            TCPServer.server_bind(self)
            self.server_name, self.server_port = host, self.server_address[1]

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away in the middle is its own affair."""

    return Listener((host, port), Handler)
