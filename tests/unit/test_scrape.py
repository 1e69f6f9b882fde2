from __future__ import annotations

from collections.abc import Iterator

import pytest

from sidecar import engines
from sidecar.engines.base import GENERATION_TOKENS
from sidecar.errors import NoSamples, ScrapeError, WrongEndpoint
from sidecar.http_page import HttpPage
from sidecar.scrape import Scraper
from sidecar.simulator import PRESETS, Engine, SimulatedWorker
from sidecar.target import parse
from tests.unit.http_worker import Peer, answer, peer
from tests.unit.makers import page

WHOLE = page("vllm-0.32.0-after-sweep")


def scraper(found: Peer, path: str | None = None) -> Scraper:
    http = HttpPage(found.target, limit=5.0)
    return Scraper(http, engines.load("auto"), path)


@pytest.fixture
def simulated() -> Iterator[SimulatedWorker]:
    engine = Engine(PRESETS["demo"].shape, "demo/model")
    engine.submit(0.0, 10, 5)
    with SimulatedWorker(engine, clock=lambda: 60.0) as worker:
        yield worker


class TestFilter:
    def test_vllm_is_asked_for_the_needed_families(
        self, simulated: SimulatedWorker
    ) -> None:
        target = parse(f"127.0.0.1:{simulated.port}")
        http = HttpPage(target, limit=5.0)
        one = Scraper(http, engines.load("auto"))

        first, second = one.read(), one.read()
        http.close()

        assert first.finished == second.finished
        assert first.counters == second.counters
        assert first.kv_tokens == second.kv_tokens
        assert first.started_at == second.started_at
        assert first.total(GENERATION_TOKENS) == 5

    def test_it_goes_on_with_the_filter(self) -> None:
        smaller = WHOLE.replace("# HELP", "#")
        with peer(lambda line: answer(smaller if "name" in line else WHOLE)) as found:
            one = scraper(found)
            for _ in range(3):
                one.read()
            one.http.close()

        assert found.paths == ["/metrics", "/metrics/", "/metrics/"]
        query = found.requests[1].split()[1]
        assert "name%5B%5D=vllm%3Anum_requests_running" in query
        assert len(query) < 2000

    @pytest.mark.parametrize(
        "filtered",
        [
            answer("", "404 Not Found"),
            answer("", "503 Service Unavailable"),
            answer(""),
            answer(WHOLE),
            # A registry of several processes filters everything away, or half of it.
            answer(page("vllm-0.32.0-slash-name-filter")),
            answer("[]"),
        ],
        ids=["404", "503", "empty", "ignored", "less", "json"],
    )
    def test_a_server_that_does_not_honour_it(self, filtered: bytes) -> None:
        def script(line: str) -> bytes:
            return filtered if "name" in line else answer(WHOLE)

        with peer(script) as found:
            one = scraper(found)
            samples = [one.read() for _ in range(4)]
            one.http.close()

        assert {sample.finished_total for sample in samples} == {2245}
        assert found.paths == [
            "/metrics",
            "/metrics/",
            "/metrics",
            "/metrics",
            "/metrics",
        ]

    def test_a_set_path_is_asked_for_as_it_is(self) -> None:
        with peer(lambda _: answer(WHOLE)) as found:
            one = scraper(found, "/prometheus/metrics")
            one.read()
            one.read()
            one.http.close()

        assert found.paths == ["/prometheus/metrics"] * 2


class TestPaths:
    def test_a_page_behind_the_slash_only(self) -> None:
        def script(line: str) -> bytes:
            path = line.split()[1].partition("?")[0]
            return answer(WHOLE) if path == "/metrics/" else answer("", "404 Not Found")

        with peer(script) as found:
            one = scraper(found)
            assert one.read().finished_total == 2245
            one.http.close()

    def test_a_redirect_is_remembered(self) -> None:
        def script(line: str) -> bytes:
            if line.split()[1] == "/metrics":
                return answer("", "307 Temporary Redirect", Location="/other")
            return answer(WHOLE) if "other" in line else answer("", "404 Not Found")

        with peer(script) as found:
            one = scraper(found)
            for _ in range(3):
                one.read()
            one.http.close()

        assert found.paths == ["/metrics", "/other", "/metrics/", "/other", "/other"]


class TestForgetting:
    def test_another_worker_behind_the_same_port_is_learned_anew(self) -> None:
        dynamo = page("dynamo-1.6.1-vllm-system-port-idle")
        bodies = iter([WHOLE, "", "", dynamo])
        with peer(lambda _: answer(next(bodies))) as found:
            one = scraper(found)
            assert one.read().engine == "vllm"
            with pytest.raises(NoSamples):
                one.read()
            assert one.read().engine == "dynamo"
            one.http.close()

    def test_a_frontend_is_refused_every_time(self) -> None:
        frontend = page("dynamo-1.6.1-frontend-idle")
        with peer(lambda _: answer(frontend)) as found:
            one = scraper(found)
            for _ in range(2):
                with pytest.raises(WrongEndpoint):
                    one.read()
            one.http.close()

    def test_nothing_there(self) -> None:
        with peer(lambda _: answer("", "404 Not Found")) as found:
            one = scraper(found)
            with pytest.raises(ScrapeError) as caught:
                one.read()
            one.http.close()

        assert caught.value.reason == "not_found"
