from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cases.servers import Answer, Request, Server
from tests.cases.watch import Watch

Address = tuple[str, int]
Serve = Callable[..., Server]
Watching = Callable[..., Watch]


class Network:
    """Which address leads where; an address without a route has none."""

    def __init__(self) -> None:
        self._routes: dict[Address, list[Address]] = {}

    def route(self, host: str, port: int, *places: Address) -> None:
        """The address leads to these places, tried in their order."""
        self._routes[host, port] = [*places]

    def getaddrinfo(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        """Stands in for ``socket.getaddrinfo``."""
        if (host, port) not in self._routes:
            raise socket.gaierror(socket.EAI_NONAME, f"no route to {host}:{port}")
        return [
            (_family(place), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)
            for place in self._routes[host, port]
        ]


def _family(place: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in place[0] else socket.AF_INET


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes servers, and closes them."""
    servers: list[Server] = []

    def make(answer: Callable[[Request], Answer], *args: Any, **more: Any) -> Server:
        servers.append(Server(answer, *args, **more))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def watching() -> Iterator[Watching]:
    """Makes agents that are driven by hand, and stops them."""
    watches: list[Watch] = []

    def make(*targets: str, **settings: Any) -> Watch:
        watches.append(Watch(targets, **settings))
        return watches[-1]

    yield make
    for watch in watches:
        watch.close()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Takes the place of name resolution: names and ports as the cases have them."""
    network = Network()
    monkeypatch.setattr(socket, "getaddrinfo", network.getaddrinfo)
    return network
