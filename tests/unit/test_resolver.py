"""Name servers that never answer, without any name server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.errors import ScrapeError
from sidecar.http_page import HttpPage
from sidecar.resolver import Resolver
from sidecar.target import parse

AT_ONCE = 0.05


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The hosts that were asked for; nothing is answered until the test ends."""
    asked: list[str] = []
    end = threading.Event()

    def getaddrinfo(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        end.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    end.set()


class TestResolver:
    @pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0"])
    def test_an_address_needs_no_answer(self, host: str, silent: list[str]) -> None:
        assert Resolver(host).answers(AT_ONCE)
        assert silent == []

    def test_silence_is_no_answer(self, silent: list[str]) -> None:
        assert not Resolver("worker.prod").answers(AT_ONCE)
        assert silent == ["worker.prod"]

    def test_it_asks_once_at_a_time(self, silent: list[str]) -> None:
        """However often it is asked: each would wait for half a minute."""
        resolver = Resolver("worker.prod")

        assert not any(resolver.answers(AT_ONCE) for _ in range(3))
        assert silent == ["worker.prod"]

    @pytest.mark.parametrize("host", ["nobody.invalid", "a" * 70])
    def test_a_bad_answer_is_one(
        self, host: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(asked: str, *_: Any) -> Any:
            asked.encode("idna")
            raise socket.gaierror

        monkeypatch.setattr(socket, "getaddrinfo", refuse)

        assert Resolver(host).answers(10)


def test_a_poll_ends_in_its_time(silent: list[str]) -> None:
    page = HttpPage(parse("worker.prod:8000"), limit=AT_ONCE)

    with pytest.raises(
        ScrapeError, match="no name server answers for worker"
    ) as caught:
        page.get("/metrics")

    assert caught.value.reason == "dns"
    assert silent == ["worker.prod"]
