from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sidecar.status import status
from tests.cases.adapter import Poll, assert_poll
from tests.cases.cases import content, covers, covers_parts, expected, table
from tests.cases.conftest import Network, Serve, Watching
from tests.cases.servers import Answer, Request, Server, always, page
from tests.cases.watch import Watch

MISSING = Answer(status=404)


def answer(case: str, part: Mapping[str, Any]) -> Answer:
    """The answer that an exchange file describes."""
    body = str(part.get("body", "")).encode()
    if "body_file" in part:
        body = content(case, part["body_file"])
    return Answer(part["status"], part.get("headers", {}), body)


def polled_twice(watch: Watch) -> Poll:
    """The second poll, since the first good one is a baseline and publishes nothing."""
    watch.tick(0)
    (poll,) = watch.tick(5)
    return poll


def results(case: str) -> list[str]:
    return list(expected(case)["results"])


@covers("03-empty-200", "25-body-is-json-string")
def test_an_answer_without_a_page(case: str, serve: Serve, watching: Watching) -> None:
    words = expected(case)["result"]
    server = serve(always(answer(case, table(case, "exchange.json"))))
    watch = watching(server.url)

    poll = polled_twice(watch)

    assert watch.is_well == words.pop("process_alive")
    assert_poll(words, poll)
    assert sum("no reading" in line for line in watch.log) == 1


@covers_parts(["47-content-type-json"], results)
def test_the_body_decides(
    case: str, part: str, serve: Serve, watching: Watching
) -> None:
    server = serve(always(answer(case, table(case, "exchange.json")[part])))

    assert_poll(expected(case)["results"][part], polled_twice(watching(server.url)))


@covers_parts(["13-redirect-to-slash"], results)
def test_redirects(
    case: str, part: str, serve: Serve, watching: Watching, network: Network
) -> None:
    words = expected(case)["results"][part]
    exchange = {each["request"]: each for each in table(case, "exchange.json")[part]}

    def by_path(request: Request) -> Answer:
        found = exchange.get(f"{request.method} {request.path.partition('?')[0]}")
        return answer(case, found) if found else MISSING

    server, other = serve(by_path), serve(by_path)
    network.route("127.0.0.1", server.port, ("127.0.0.1", server.port))
    network.route("other.example", 80, ("127.0.0.1", other.port))
    watch = watching(server.url)
    watch.tick(0)
    server.requests.clear()

    (poll,) = watch.tick(5)

    assert len(other.requests) == words.pop("requests_to_other_host", 0)
    assert 1 <= len(server.requests) <= words.pop("max_requests", len(exchange))
    assert_poll(words, poll)


@covers_parts(["14-metrics-need-token"], results)
def test_token(case: str, part: str, serve: Serve, watching: Watching) -> None:
    words, exchange = expected(case), table(case, "exchange.json")
    wanted = exchange["with_token"]["request_headers"]

    def with_the_token(request: Request) -> Answer:
        allowed = wanted.items() <= request.headers.items()
        return answer(case, exchange["with_token" if allowed else "no_token"])

    server = serve(with_the_token)
    sent = exchange[part]["request_headers"].get("authorization")
    token = {"bearer_token": sent.removeprefix("Bearer ")} if sent else {}
    watch = watching(server.url, **token)

    poll = polled_twice(watch)

    said = words["results"][part]
    assert watch.is_well == said.pop("process_alive", True)
    assert_poll(said, poll)
    shown = [*watch.log, json.dumps(status(watch.agent, 5.0)), repr(watch.readings)]
    assert watch.log
    for secret in words["log_must_not_contain"]:
        assert not any(secret in text for text in shown)


@covers("14-metrics-need-token")
def test_a_token_that_the_server_sends_back_is_not_logged(
    case: str, serve: Serve, watching: Watching
) -> None:
    (secret,) = expected(case)["log_must_not_contain"]
    server = serve(always(Answer(307, {"location": f"http://{secret}.example/"})))
    watch = watching(server.url, bearer_token=secret)

    watch.tick(0)

    assert any(".example/" in line for line in watch.log)
    assert not any(secret in line for line in watch.log)


@covers("20-two-workers-one-node")
def test_workers_of_one_node(
    case: str, serve: Serve, watching: Watching, network: Network
) -> None:
    words, setup = expected(case), table(case, "setup.json")

    def start(port: str) -> Server:
        if port not in setup["serve"]:
            return serve(always(MISSING), listening=False)
        return serve(always(page(content(case, setup["serve"][port]))))

    for address in setup["targets"]:
        host, _, port = address.partition(":")
        network.route(host, int(port), (host, start(port).port))
    watch = watching(*setup["targets"])
    watch.tick(0)

    polls = dict(zip(setup["targets"], watch.tick(5), strict=True))

    assert polls.keys() == words["per_target"].keys()
    for address, said in words["per_target"].items():
        assert_poll(said, polls[address])
    identities = [reading.identity for reading in watch.readings]
    good = [poll for poll in polls.values() if poll.error is None]
    assert len(identities) == len(good) > 1
    assert (len({*identities}) == len(identities)) == words["identities_distinct"]


LOCALHOST = "44-localhost-families"
LISTEN = {
    "127.0.0.1:8081": "127.0.0.1",
    "[::1]:8081": "::1",
    "[::]:8081": "::",
}
ALSO = {
    "http://[::1]:8081/metrics as an explicit target": "http://[::1]:8081/metrics",
    "a bare IPv6 host in the host variable gets brackets": "::1:8081",
}


class TestLocalhost:
    @pytest.fixture
    def worker(self, serve: Serve, network: Network) -> Callable[[str], None]:
        """Starts the worker of a variant: behind localhost and every loopback."""
        setup = table(LOCALHOST, "setup.json")

        def start(variant: str) -> None:
            answer = page(content(LOCALHOST, setup["page"]))
            (address,) = setup["variants"][variant]
            port = serve(always(answer), LISTEN[address]).port
            network.route("localhost", 8081, *((ip, port) for ip in setup["resolve"]))
            for ip in setup["resolve"]:
                network.route(ip, 8081, (ip, port))

        return start

    @covers_parts([LOCALHOST], results)
    def test_every_address_is_tried(
        self, case: str, part: str, worker: Callable[[str], None], watching: Watching
    ) -> None:
        words = expected(case)["results"][part]
        worker(part)
        watch = watching("localhost:8081")
        began = time.monotonic()

        poll = polled_twice(watch)

        assert time.monotonic() - began < words.pop("max_seconds")
        assert_poll(words, poll)

    @covers_parts([LOCALHOST], lambda case: list(expected(case)["also_accepts"]))
    def test_also_accepted(
        self, case: str, part: str, worker: Callable[[str], None], watching: Watching
    ) -> None:
        words = expected(case)["results"]["b"]
        words.pop("max_seconds")
        worker("b")
        watch = watching(ALSO[part])

        assert_poll(words, polled_twice(watch))
        assert watch.worker().target.address == "[::1]:8081"
