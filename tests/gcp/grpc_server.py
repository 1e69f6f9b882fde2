"""A gRPC server on a loopback port of its own, that stops and starts again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from tests.gcp.reserved import ReservedPort

_CALLS_AT_ONCE = 8


class GrpcServer:
    """Until ``start`` and after ``stop`` the port refuses connections.

    Args:
        tls: its key and certificate; None: it speaks plaintext.
    """

    def __init__(self, tls: grpc.ServerCredentials | None = None) -> None:
        self._tls = tls
        self._port = ReservedPort()
        self._server: grpc.Server | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def endpoint(self) -> str:
        """``host:port``, the same over stops and starts."""
        return f"127.0.0.1:{self._port.number}"

    def start(self, handlers: grpc.GenericRpcHandler) -> None:
        """Serve from now on."""
        self._threads = ThreadPoolExecutor(_CALLS_AT_ONCE, "grpc-server")
        options = [("grpc.so_reuseport", 1)]
        self._server = grpc.server(self._threads, options=options)
        self._server.add_generic_rpc_handlers((handlers,))
        if self._tls is None:
            self._server.add_insecure_port(self.endpoint)
        else:
            self._server.add_secure_port(self.endpoint, self._tls)
        self._server.start()

    def stop(self) -> None:
        """End all calls and refuse new ones; safe without ``start`` and twice."""
        if self._server is not None:
            self._server.stop(grace=None).wait()
        if self._threads is not None:
            self._threads.shutdown()
        self._server = self._threads = None

    def close(self) -> None:
        """Stop, and give the port up."""
        self.stop()
        self._port.close()


def wait_for_end(context: grpc.ServicerContext) -> None:
    """Wait for the client's deadline or leave, or for the server to stop."""
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait()
