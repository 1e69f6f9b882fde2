"""One HTTP connection to a worker, with hard limits on time and size."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from urllib.parse import urljoin, urlsplit

from sidecar import __version__
from sidecar.errors import ScrapeError
from sidecar.resolver import Resolver
from sidecar.target import Target

LARGEST_BODY = 16 * 1024 * 1024
MOST_REDIRECTS = 3

_CHUNK = 64 * 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}
_BOTH_FAMILIES = ("127.0.0.1", "::1")
_STALE = (RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class HttpPage:
    """Fetches pages of one target over a kept connection. Not for two threads at once.

    Proxies are never used: a proxy's loopback is another machine's.

    Args:
        limit: seconds for a whole exchange, from connecting to the body's last byte.
        token: bearer token; it is only ever sent to the target itself.
        tls: how to verify an https target.
    """

    def __init__(
        self,
        target: Target,
        *,
        limit: float,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self._limit = limit
        self._tls = tls
        self._token = token
        self._clock = clock
        self._connection: HTTPConnection | None = None
        self._resolver = Resolver(target.host)
        self._cut_short: str | None = None
        # No OpenMetrics: vLLM then renames every sample.
        self._headers = {
            "Accept": "text/plain",
            "User-Agent": f"capacity-sidecar/{__version__}",
        }
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> tuple[str, str, float]:
        """The body, the path it came from after redirects, and when it had arrived.

        Raises:
            ScrapeError: no complete answer of status 200 within the limits.
        """
        self._cut_short = None
        # Shutting the socket down ends whatever read is under way: a time limit on
        # single reads would let a server that sends a byte a second go on for ever.
        timer = threading.Timer(self._limit, self.abort, ["timeout"])
        timer.daemon = True
        timer.start()
        try:
            return self._get(path)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise self._translated(error) from None
        except ScrapeError:
            self.close()
            raise
        finally:
            timer.cancel()

    def abort(self, why: str = "stopped") -> None:
        """End the exchange under way, from any thread; it fails with this reason."""
        self._cut_short = why
        connection = self._connection
        sock = connection.sock if connection else None
        if sock is not None:
            with contextlib.suppress(OSError):  # already closed
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next ``get`` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get(self, path: str) -> tuple[str, str, float]:
        for _ in range(MOST_REDIRECTS + 1):
            response = self._exchange(path)
            if response.status not in _REDIRECTS:
                body = self._body(response)
                return body.decode("utf-8", "replace"), path, self._clock()
            path = self._redirected(path, response)
        msg = f"more than {MOST_REDIRECTS} redirects, the last to {path}"
        raise ScrapeError(msg, reason="redirect")

    def _exchange(self, path: str) -> HTTPResponse:
        reused = self._connection is not None
        try:
            return self._request(path)
        except _STALE:
            # The worker closed a connection that had idled; a fresh one tells.
            if not reused or self._cut_short:
                raise
            self.close()
            return self._request(path)

    def _request(self, path: str) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._opened()
        self._connection.request("GET", path, headers=self._headers)
        return self._connection.getresponse()

    def _opened(self) -> HTTPConnection:
        host, port = self.target.host, self.target.port
        if host != "localhost" and not self._resolver.answers(self._limit):
            msg = f"no name server answers for {host} within {self._limit:g} s"
            raise ScrapeError(msg, reason="dns")
        if self.target.scheme == "https":
            return HTTPSConnection(host, port, timeout=self._limit, context=self._tls)
        # RFC 6761, 6.3: it is always loopback. Many a container's hosts file gives it
        # one address family only, or is not there.
        names = _BOTH_FAMILIES if host == "localhost" else (host,)
        failures: list[OSError] = []
        for name in names:
            connection = HTTPConnection(name, port, timeout=self._limit)
            try:
                connection.connect()
            except OSError as error:
                failures.append(error)
            else:
                return connection
        raise failures[0]

    def _redirected(self, path: str, response: HTTPResponse) -> str:
        response.read(_CHUNK)
        origin = f"{self.target.scheme}://{self.target.address}"
        location = response.getheader("Location") or ""
        elsewhere = "what is no URL"
        with contextlib.suppress(ValueError):
            there = urlsplit(urljoin(origin + path, location))
            port = there.port or _DEFAULT_PORTS.get(there.scheme)
            here = (self.target.scheme, self.target.host.lower(), self.target.port)
            if (there.scheme, there.hostname, port) == here:
                return there.path + (f"?{there.query}" if there.query else "")
            elsewhere = f"{there.scheme}://{there.hostname}/"
        if self._token:
            elsewhere = elsewhere.replace(self._token, "***")
        msg = f"it redirects to another host, {elsewhere}; not followed"
        raise ScrapeError(msg, reason="redirect")

    def _body(self, response: HTTPResponse) -> bytes:
        if response.status != HTTPStatus.OK:
            raise _refused(response.status)
        encoding = response.getheader("Content-Encoding", "identity").lower()
        if encoding != "identity":
            msg = f"it answers in {encoding}, which was not asked for"
            raise ScrapeError(msg, reason="encoding")
        parts, size = [], 0
        while chunk := response.read(_CHUNK):
            size += len(chunk)
            if size > LARGEST_BODY:
                msg = f"it sends more than {LARGEST_BODY >> 20} MiB: no metrics page"
                raise ScrapeError(msg, reason="too_large")
            parts.append(chunk)
        # ``length`` is what is still missing; None where the server did not say.
        if response.length:
            raise IncompleteRead(b"".join(parts), response.length)
        if self._cut_short:
            raise TimeoutError
        return b"".join(parts)

    def _translated(self, error: Exception) -> ScrapeError:
        if self._cut_short == "timeout" or isinstance(error, TimeoutError):
            msg = f"it gave no complete answer within {self._limit:g} s"
            return ScrapeError(msg, reason="timeout")
        if self._cut_short:
            return ScrapeError("the read was stopped", reason="stopped")
        if isinstance(error, ConnectionRefusedError):
            msg = "it refuses connections: nothing listens there (yet)"
            return ScrapeError(msg, reason="refused")
        if isinstance(error, (socket.gaierror, UnicodeError)):
            reason = getattr(error, "strerror", None) or "not a host name"
            msg = f"the host {self.target.host} has no address: {reason}"
            return ScrapeError(msg, reason="dns")
        if isinstance(error, ssl.SSLError):
            hint = "set SIDECAR_TLS_CA_FILE, or http:// if it speaks no TLS"
            msg = f"TLS failed ({error.reason or error}); {hint}"
            return ScrapeError(msg, reason="tls")
        if isinstance(error, IncompleteRead):
            msg = "it closed the connection in the middle of the page"
            return ScrapeError(msg, reason="incomplete")
        # http.client lets some broken framing through as a ValueError.
        if isinstance(error, (HTTPException, ValueError)):
            msg = f"it does not speak HTTP as expected ({type(error).__name__})"
            return ScrapeError(msg, reason="not_http")
        return ScrapeError(str(error), reason="connection")


_REDIRECTS = frozenset(
    {
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)


def _refused(status: int) -> ScrapeError:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        msg = f"it answers {status}: it wants a token; set SIDECAR_BEARER_TOKEN"
        return ScrapeError(msg, reason="unauthorized")
    if status == HTTPStatus.NOT_FOUND:
        msg = "it answers 404: no page at that path; set SIDECAR_METRICS_PATH"
        return ScrapeError(msg, reason="not_found")
    return ScrapeError(f"it answers HTTP {status}", reason="http_status")


def tls_context(ca_file: str | None, *, skip_verify: bool) -> ssl.SSLContext:
    """How to verify https workers: the system's certificates and those of the file.

    Raises:
        ssl.SSLError: the file has no certificates.
    """
    context = ssl.create_default_context(cafile=ca_file)
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
