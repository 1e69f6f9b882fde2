from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar import sinks
from sidecar.reading import TIMESTAMP
from sidecar.sinks.pushgateway import path
from tests.cases.cases import covers, expected, table
from tests.cases.conftest import Serve, Watching
from tests.cases.servers import Answer, Request, Server, always, worker_page
from tests.cases.watch import Watch
from tests.process.debian import Pushgateway
from tests.process.sockets import reserved_port
from tests.process.web import fetch

PATHS = "31-pushgateway-path"


def pushing(watching: Watching, worker: Server, gateway: Server) -> Watch:
    """An agent with the Pushgateway sink, pushing at every poll."""
    watch: Watch = watching(
        worker.url,
        sink=lambda settings: sinks.build("pushgateway", settings),
        poll_interval="15s",
        pushgateway={"url": gateway.url, "interval": "15s"},
    )
    return watch


def pushed(request: Request) -> dict[str, float]:
    """The samples of a push that have no labels of their own but the model."""
    families = text_string_to_metric_families(request.body.decode())
    return {s.name: s.value for family in families for s in family.samples}


def groups(case: str) -> list[dict[str, str]]:
    """Job and grouping labels of every row."""
    rows = table(case, "groupings.json")
    return [{"job": row["job"], **row["grouping"]} for row in rows]


def decoded(text: str) -> Iterator[tuple[str, str]]:
    """Labels of a group's path, by the gateway's rules."""
    segments = text.removeprefix("/metrics/").split("/")
    for name, value in zip(segments[::2], segments[1::2], strict=True):
        label, encoding, _ = name.partition("@base64")
        yield label, urlsafe_b64decode(value).decode() if encoding else unquote(value)


@covers(PATHS)
def test_paths(case: str) -> None:
    words = expected(case)

    for group, row in zip(groups(case), words["rows"], strict=True):
        made = path(group)

        assert made in row["accept_path_any_of"]
        wrong = {
            "a path containing //": "//" in made,
            "a raw slash inside a value": [*decoded(made)] != [*group.items()],
            "%2F inside a value": "%2F" in made.upper(),
        }
        assert not any(wrong[text] for text in words["must_not"])


@pytest.mark.process
@covers(PATHS)
def test_the_gateway_takes_the_paths(case: str, tmp_path: Path) -> None:
    with reserved_port() as port:
        gateway = Pushgateway(port, tmp_path)
        gateway.start()
        try:
            for group in groups(case):
                fetch(gateway.url + path(group), "PUT", b"something 1\n")
            found = {frozenset(group.items()) for group in gateway.groups()}
        finally:
            gateway.kill()
    assert found == {frozenset(group.items()) for group in groups(case)}


@covers("32-pushgateway-400")
def test_a_gateway_that_refuses(case: str, serve: Serve, watching: Watching) -> None:
    words = expected(case)
    exchange = {each["poll"]: each for each in table(case, "exchange.json")}
    gateway = serve(always(Answer(500, body=b"asked too early")))
    finished = 0
    worker = serve(lambda _: worker_page(finished))
    watch = pushing(watching, worker, gateway)
    rates = []

    for number in range(1, max(exchange) + 1):
        # More requests at each poll, so that each has a throughput of its own.
        finished += 100 * number
        said = exchange.get(number)
        if said:
            answer = Answer(said["status"], body=said["body"].encode())
            gateway.answer = always(answer)
        before = len(gateway.requests)
        (poll,) = watch.tick(15 * number)
        assert poll.error is None
        sent = len(gateway.requests) - before
        assert sent == (words["requests_per_poll"] if said else 0)
        if poll.interval:
            assert poll.interval.departures == 100 * number
            rates.append(watch.worker().values.throughput)

    assert watch.is_well == words["process_alive"]
    assert len(gateway.requests) == words["requests_total"]
    failures = watch.telemetry.registry.get_sample_value(
        "sidecar_publishes_total", {"sink": "pushgateway", "outcome": "failed"}
    )
    assert failures == words["push_failures_counted"]
    about = [line for line in watch.log if exchange[2]["body"] in line]
    assert bool(about) == words["log"]["contains_body_excerpt"]
    assert len(about) <= words["log"]["max_lines_for_identical_error"]
    last = pushed(gateway.requests[-1])
    assert words["poll_5_point"].startswith("the value of poll 5")
    assert last["llm_worker_throughput"] == rates[-1]
    assert last[TIMESTAMP] == watch.time.wall
    assert len({*rates}) == len(rates)


@covers("33-pushgateway-shutdown-delete")
def test_the_group_is_deleted_at_the_end(
    case: str, serve: Serve, watching: Watching
) -> None:
    words = expected(case)
    gateway = serve(always(Answer(202)))
    finished = 0
    watch = pushing(watching, serve(lambda _: worker_page(finished)), gateway)

    for step in table(case, "steps.json"):
        finished += 50
        if step["action"] == "SIGTERM":
            watch.time.at(step)
            watch.close()
        else:
            watch.tick(step["mono"])

    paths = {request.path for request in gateway.requests}
    (named,) = {request["path"] for request in words["requests"]}
    assert words["requests"] == [
        {"method": request.method, "path": named} for request in gateway.requests
    ]
    assert (len(paths) == 1) == words["same_path"]
    instance = ("worker", f"node-1:{watch.worker().target.port}")
    assert (instance in decoded(paths.pop())) == words["path_contains_instance"]
    assert TIMESTAMP in pushed(gateway.requests[0])
