"""A worker's metrics page, as an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

_SAME_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""On one port these are one worker, in whichever address family it listens."""

OWN_PAGE = "127.0.0.1:9846"
"""Where the sidecar's own page is, unless SIDECAR_LISTEN says otherwise."""

LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})


@dataclass(frozen=True)
class Target:
    """Where a worker's page is.

    Attributes:
        path: the page's path and query; None: find it (``/metrics`` and the like).
        origin: how the target was found, in words.
        max_concurrency: the engine's sequence limit where its command line shows it.
    """

    scheme: str
    host: str
    port: int
    path: str | None = None
    origin: str = ""
    max_concurrency: float | None = None

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """The URL as far as it is known."""
        return f"{self.scheme}://{self.address}{self.path or ''}"

    @property
    def place(self) -> tuple[str, int, str | None]:
        """What tells two targets apart, however they were found."""
        host = "localhost" if self.host in _SAME_LOOPBACK else self.host
        return host, self.port, self.path

    @property
    def is_loopback(self) -> bool:
        """Whether the worker is on this machine (or in this pod)."""
        if self.host.lower() in LOOPBACK_NAMES:
            return True
        address = numeric(self.host)
        return address is not None and address.is_loopback


def numeric(host: str) -> IPv4Address | IPv6Address | None:
    """The host as an address, whatever its zone; None: it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def bracketed(host: str) -> str:
    """The host as a URL wants it."""
    return f"[{host}]" if ":" in host else host


def listen_address(text: str) -> tuple[str, int]:
    """Host and port to listen on; port 0 is any free one.

    Raises:
        ValueError: it is not ``host:port``.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        msg = "is not host:port; write 127.0.0.1:9846 or 0.0.0.0:9846, or off"
        raise ValueError(msg)
    return host, int(port)


def local(port: int, origin: str, **more: float | str | None) -> Target:
    """The page on a port of this machine, whatever address family it listens on."""
    return Target("http", "localhost", port, origin=origin, **more)  # type: ignore[arg-type]


def parse(text: str, origin: str = "") -> Target:
    """A target from a URL, ``host:port`` or a port of this machine.

    Raises:
        ValueError: it is none of these; the message says what is wrong.
    """
    example = "write http://127.0.0.1:8000/metrics, 127.0.0.1:8000 or 8000"
    # First: the other messages show the text.
    if "@" in text.partition("?")[0]:
        msg = "a target has a user or password in it; use SIDECAR_BEARER_TOKEN"
        raise ValueError(msg)
    if re.search(r"\s", text):
        msg = f"{text!r} has blanks in it; {example}"
        raise ValueError(msg)
    if text.isascii() and text.isdigit():
        text = f"localhost:{text}"
    if "://" not in text:
        host, _, rest = text.rpartition(":")
        port, slash, path = rest.partition("/")
        host = bracketed(host.strip("[]"))
        text = f"http://{host}:{port}{slash}{path}" if host and port else text
    url = urlsplit(text)
    try:
        port_number = url.port
    except ValueError:
        msg = f"{text!r} has no port from 1 to 65535; {example}"
        raise ValueError(msg) from None
    if url.scheme not in {"http", "https"} or not url.hostname:
        msg = f"{text!r} is not an address; {example}"
        raise ValueError(msg)
    if port_number == 0:
        msg = f"{text!r} has port 0; {example}"
        raise ValueError(msg)
    query = f"?{url.query}" if url.query else ""
    path_and_query = (url.path + query) if url.path not in {"", "/"} else None
    default = 443 if url.scheme == "https" else 80
    port_or_default = port_number or default
    return Target(url.scheme, url.hostname, port_or_default, path_and_query, origin)
