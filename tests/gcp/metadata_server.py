"""Google's metadata server, over real HTTP on loopback.

    with MetadataServer(gce()) as server:
        os.environ["GCE_METADATA_HOST"] = os.environ["GCE_METADATA_IP"] = server.host

Header, answers and texts: salrashid123/gce_metadata_server #11 and google-auth's own
reading of the server. google-auth reads ``GCE_METADATA_HOST`` when it is imported.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from urllib.parse import parse_qs, urlsplit

from tests.gcp.metadata_lookup import JSON, ROOT, TEXT, Answer, look_up, page
from tests.gcp.metadata_values import ACCOUNTS
from tests.gcp.reserved import ReservedPort, share

TOKEN = f"{ACCOUNTS}/default/token"

UNBOUND = (
    "Unable to generate access token; IAM returned 403 Forbidden: Permission "
    "'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).\n"
    "This error could be caused by a missing IAM policy binding on the target IAM "
    "service account.\n"
)
"""With 403 for ``TOKEN``: an unbound account (cloudnative-pg #5370)."""

_FLAVOR = "Metadata-Flavor"
_SLOWEST_CLIENT = 20.0
_PACE = 0.02


class MetadataServer:
    """The server. Until ``start`` and after ``stop`` its port refuses connections.

    Args:
        values: by path, of `metadata_values.gce` or `gke`; may be changed at any time.
        refuse_first: so many requests are refused first, as on a new pod.
        refuse_with: the status of those; None: the connection is closed instead.

    Attributes:
        requests: the path, with its query, of every request, the refused ones too.
        token_lifetime: seconds that a token says it is good for.
        tokens: the access tokens that were given out.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        *,
        refuse_first: int = 0,
        refuse_with: int | None = None,
    ) -> None:
        self.values = dict(values)
        self.refuse_first = refuse_first
        self.refuse_with = refuse_with
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.token_lifetime = 3599
        self._failing: dict[str, tuple[int, str]] = {}
        self._lock = threading.Lock()
        self._port = ReservedPort()
        self._server: ThreadingTCPServer | None = None

    @property
    def host(self) -> str:
        """``127.0.0.1:PORT``, the same over stops and starts."""
        return f"127.0.0.1:{self._port.number}"

    def __enter__(self) -> MetadataServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Serve from now on; after a ``stop`` too."""
        self._server = _listener(self._port.number, self)
        threading.Thread(
            target=self._server.serve_forever, args=[_PACE], daemon=True
        ).start()

    def stop(self) -> None:
        """Refuse connections; safe without ``start`` and twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None

    def close(self) -> None:
        """Stop, and give the port up."""
        self.stop()
        self._port.close()

    def fail(self, path: str, status: int = 404, text: str = "Not Found\n") -> None:
        """Answer so for the path, ``TOKEN`` or ``ACCOUNTS`` say, and all below it."""
        self._failing[path] = (status, text)

    def recover(self) -> None:
        """Answer every path as it should be, refuse nothing."""
        self._failing.clear()
        self.refuse_first = 0

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer | None:
        """What a request gets; None: its connection is closed without a word.

        Args:
            headers: names in lower case.
        """
        with self._lock:
            self.requests.append(target)
            if self.refuse_first:
                self.refuse_first -= 1
                if self.refuse_with is None:
                    return None
                return Answer(self.refuse_with, TEXT, "")
            url = urlsplit(target)
            if url.path == "/":
                return Answer(200, TEXT, "computeMetadata/\n")
            if headers.get(_FLAVOR.lower()) != "Google" or "x-forwarded-for" in headers:
                return page(HTTPStatus.FORBIDDEN)
            if not url.path.startswith(ROOT):
                return page(HTTPStatus.NOT_FOUND)
            return self._value(url.path.removeprefix(ROOT), parse_qs(url.query))

    def _value(self, path: str, query: Mapping[str, list[str]]) -> Answer:
        for prefix, (status, text) in self._failing.items():
            if f"{path.rstrip('/')}/".startswith(f"{prefix}/"):
                return Answer(status, TEXT, text)
        if path.startswith(f"{ACCOUNTS}/") and path.endswith("/token"):
            return self._token(path)
        return look_up(self.values, path, query, self.host)

    def _token(self, path: str) -> Answer:
        if path.removesuffix("token") + "email" not in self.values:
            return page(HTTPStatus.NOT_FOUND)
        self.tokens.append(f"ya29.token-{len(self.tokens) + 1}")
        token = {
            "access_token": self.tokens[-1],
            "expires_in": self.token_lifetime,
            "token_type": "Bearer",
        }
        return Answer(200, JSON, json.dumps(token))


def _listener(port: int, owner: MetadataServer) -> ThreadingTCPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SLOWEST_CLIENT
        server_version = "Metadata Server for VM"
        sys_version = ""

        def do_GET(self) -> None:
            headers = {name.lower(): text for name, text in self.headers.items()}
            answer = owner.answer(self.path, headers)
            if answer is None:
                return
            body = answer.text.encode()
            self.send_response(answer.status)
            self.send_header(_FLAVOR, "Google")
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(body)))
            if answer.location is not None:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing to standard error."""

    class Listener(ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def server_bind(self) -> None:
            share(self.socket)
            super().server_bind()

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away is part of the case."""

    return Listener(("127.0.0.1", port), Handler)
