from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from sidecar import http_page
from sidecar.errors import ScrapeError
from sidecar.http_page import HttpPage
from sidecar.target import Target, parse
from tests.unit.http_worker import CLOSE, answer, peer

LIMIT = 5.0
_OK = b"HTTP/1.1 200 OK\r\n"


def refusal(
    target: Target, path: str = "/metrics", limit: float = LIMIT
) -> ScrapeError:
    page = HttpPage(target, limit=limit)
    with pytest.raises(ScrapeError) as caught:
        page.get(path)
    page.close()
    return caught.value


class TestAnswers:
    def test_the_body_its_path_and_its_time(self) -> None:
        with peer(lambda _: answer("a 1\n")) as found:
            page = HttpPage(found.target, limit=LIMIT, clock=lambda: 7.0)

            assert page.get("/metrics") == ("a 1\n", "/metrics", 7.0)
            page.close()

    def test_the_connection_is_kept(self) -> None:
        with peer(lambda _: answer("a 1\n")) as found:
            page = HttpPage(found.target, limit=LIMIT)
            for _ in range(5):
                page.get("/metrics")
            page.close()

        assert (len(found.requests), found.connections) == (5, 1)

    def test_a_connection_closed_while_idle_is_opened_again(self) -> None:
        bodies = iter([answer("a 1\n"), b"", answer("a 2\n")])
        with peer(lambda _: next(bodies)) as found:
            page = HttpPage(found.target, limit=LIMIT)
            page.get("/metrics")

            assert page.get("/metrics")[0] == "a 2\n"
            page.close()

        assert found.connections == 2

    def test_no_openmetrics_no_compression_no_proxy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with peer(lambda _: answer("a 1\n")) as found:
            page = HttpPage(found.target, limit=LIMIT, token="tok-123")
            page.get("/metrics")
            page.close()

        request = found.requests[0].lower()
        assert "accept: text/plain\r\n" in request
        assert "accept-encoding: identity\r\n" in request
        assert "authorization: bearer tok-123\r\n" in request

    def test_chunks_and_unknown_length(self) -> None:
        chunked = (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"4\r\na 1\n\r\n4\r\nb 2\n\r\n0\r\n\r\n"
        )
        with peer(lambda _: chunked) as found:
            page = HttpPage(found.target, limit=LIMIT)
            assert page.get("/")[0] == "a 1\nb 2\n"
            page.close()

    def test_both_families_of_localhost(self) -> None:
        for host in ("127.0.0.1", "::1"):
            with peer(lambda _: answer("a 1\n"), host) as found:
                local = replace(found.target, host="localhost")
                page = HttpPage(local, limit=LIMIT)
                assert page.get("/")[0] == "a 1\n"
                page.close()

    def test_localhost_needs_no_resolver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A minimal machine has no hosts file and no NSS module for it."""
        resolve = socket.getaddrinfo

        def only_numbers(host: str, port: int, *_: Any, **__: Any) -> Any:
            return resolve(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)

        monkeypatch.setattr(socket, "getaddrinfo", only_numbers)
        with peer(lambda _: answer("a 1\n")) as found:
            page = HttpPage(replace(found.target, host="localhost"), limit=LIMIT)
            assert page.get("/")[0] == "a 1\n"
            page.close()


class TestRedirects:
    def test_the_same_origin_is_followed(self) -> None:
        def script(line: str) -> bytes:
            if line.split()[1] == "/metrics":
                return answer("", "307 Temporary Redirect", Location="/metrics/")
            return answer("a 1\n")

        with peer(script) as found:
            page = HttpPage(found.target, limit=LIMIT)

            assert page.get("/metrics")[:2] == ("a 1\n", "/metrics/")
            page.close()

    def test_another_host_is_not(self) -> None:
        there = answer("", "302 Found", Location="http://127.0.0.2:9/metrics")
        with peer(lambda _: there) as found:
            error = refusal(found.target)

        assert error.reason == "redirect"
        assert "another host" in str(error)

    def test_a_loop_ends(self) -> None:
        again = answer("", "307 Temporary Redirect", Location="/metrics")
        with peer(lambda _: again) as found:
            assert refusal(found.target).reason == "redirect"

        assert len(found.requests) == http_page.MOST_REDIRECTS + 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("raw", "reason", "words"),
        [
            (answer("{}", "401 Unauthorized"), "unauthorized", "SIDECAR_BEARER_TOKEN"),
            (answer("{}", "403 Forbidden"), "unauthorized", "SIDECAR_BEARER_TOKEN"),
            (answer("", "404 Not Found"), "not_found", "SIDECAR_METRICS_PATH"),
            (answer("", "503 Service Unavailable"), "http_status", "HTTP 503"),
            (answer("x", Content_Encoding="gzip"), "encoding", "gzip"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "not_http", "does not speak HTTP"),
            (_OK + b"Content-Length: 9\r\n\r\na" + CLOSE, "incomplete", "middle"),
            (
                _OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\na" + CLOSE,
                "incomplete",
                "",
            ),
            (b"", "not_http", "does not speak HTTP"),
        ],
    )
    def test_one_sentence(self, raw: bytes, reason: str, words: str) -> None:
        with peer(lambda _: raw) as found:
            error = refusal(found.target)

        assert error.reason == reason
        assert words in str(error)
        assert "\n" not in str(error)

    def test_nothing_listens(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            target = parse(f"127.0.0.1:{taken.getsockname()[1]}")

            assert refusal(target).reason == "refused"

    @pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 70])
    def test_a_host_without_address(self, host: str) -> None:
        assert refusal(Target("http", host, 1)).reason == "dns"

    def test_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_page, "LARGEST_BODY", 1000)
        with peer(lambda _: answer("x" * 2000)) as found:
            assert refusal(found.target).reason == "too_large"

    def test_plain_http_behind_https(self) -> None:
        with peer(lambda _: answer("a 1\n")) as found:
            error = refusal(replace(found.target, scheme="https"), limit=0.5)

        assert error.reason in {"tls", "timeout", "connection"}


class TestTimeLimit:
    def test_no_answer(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            target = parse(f"127.0.0.1:{silent.getsockname()[1]}")
            error = refusal(target, limit=0.2)

        assert error.reason == "timeout"
        assert "within 0.2 s" in str(error)

    def test_a_byte_now_and_then_does_not_prolong_it(self) -> None:
        """Each single read is quick; the whole exchange is what is limited."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            done = threading.Event()

            def trickle() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"
                    )
                    try:
                        while not done.wait(0.02):
                            connection.sendall(b"x")
                    except OSError:
                        return

            thread = threading.Thread(target=trickle)
            thread.start()
            target = parse(f"127.0.0.1:{listener.getsockname()[1]}")
            error = refusal(target, limit=0.3)
            done.set()
            thread.join()

        assert error.reason == "timeout"

    def test_it_can_be_stopped_from_another_thread(self) -> None:
        asked, release = threading.Event(), threading.Event()

        def script(_: str) -> bytes:
            asked.set()
            release.wait(LIMIT)
            return b""

        with peer(script) as found:
            page = HttpPage(found.target, limit=60.0)
            errors: list[ScrapeError] = []

            def read() -> None:
                try:
                    page.get("/metrics")
                except ScrapeError as error:
                    errors.append(error)

            thread = threading.Thread(target=read)
            thread.start()
            assert asked.wait(LIMIT)
            page.abort()
            thread.join(LIMIT)
            release.set()

        assert [error.reason for error in errors] == ["stopped"]
