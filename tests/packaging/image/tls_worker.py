"""A worker's page behind TLS, with a certificate that nobody has heard of."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from tests.gcp.certificate import pair


@contextmanager
def tls_worker(page: str, directory: Path) -> Iterator[tuple[int, Path]]:
    """The port that it serves on, and the file to trust it by."""
    private, certificate = pair()
    authority, chain = directory / "authority.pem", directory / "chain.pem"
    authority.write_bytes(certificate)
    chain.write_bytes(private + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    class Server(HTTPServer):
        def handle_error(self, *args: Any) -> None:
            """A client that does not trust it goes away."""

    with Server(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield server.server_port, authority
        finally:
            server.shutdown()
            thread.join()
