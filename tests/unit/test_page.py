"""The sidecar's own server: what it answers, in every state that it can show."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar import health, status_page
from sidecar.discovery import Discovered, Verdict
from sidecar.errors import SettingsError
from sidecar.server import Server
from sidecar.status import status, summary
from tests.unit.agent_bench import Bench, Page, bench, start


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def get(
    stack: ExitStack, one: Bench, path: str, method: str = "GET"
) -> tuple[int, str]:
    server = Server("127.0.0.1:0", health.routes(one.agent, one.telemetry))
    server.start()
    stack.callback(server.stop)
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    stack.callback(connection.close)
    connection.request(method, path)
    response = connection.getresponse()
    return response.status, response.read().decode()


class Text(HTMLParser):
    """The words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(page: str) -> str:
    parser = Text()
    parser.feed(page)
    return " ".join(parser.words)


class TestHealth:
    def test_alive_while_the_loop_turns(self, stack: ExitStack) -> None:
        one = bench(stack, start(stack, Page()))
        one.tick()

        assert get(stack, one, "/healthz") == (200, "ok\n")
        one.time.now += 60
        assert get(stack, one, "/healthz")[0] == 503

    def test_a_worker_that_is_away_does_not_fail_it(self, stack: ExitStack) -> None:
        page = Page()
        page.up = False
        one = bench(stack, start(stack, page))
        one.tick(30)

        assert get(stack, one, "/healthz")[0] == 200
        assert get(stack, one, "/readyz")[0] == 503

    def test_ready_after_the_first_reading(self, stack: ExitStack) -> None:
        one = bench(stack, start(stack, Page()))
        one.tick()

        assert get(stack, one, "/readyz") == (200, "ready\n")

    def test_disabled_is_ready(self, stack: ExitStack) -> None:
        one = bench(stack, enabled=False)

        assert get(stack, one, "/readyz")[0] == 200
        assert "Switched off" in words(get(stack, one, "/")[1])

    def test_other_paths_say_what_there_is(self, stack: ExitStack) -> None:
        one = bench(stack)

        code, body = get(stack, one, "/metric")

        assert code == 404
        assert "/metrics" in body

    def test_head_and_a_trailing_slash(self, stack: ExitStack) -> None:
        one = bench(stack)

        assert get(stack, one, "/readyz/", "HEAD") == (503, "")

    def test_metrics(self, stack: ExitStack) -> None:
        one = bench(stack, start(stack, Page()))
        one.tick(2)

        body = get(stack, one, "/metrics?x=1")[1]

        names = {family.name for family in text_string_to_metric_families(body)}
        assert {"sidecar_polls", "sidecar_build_info"} <= names


class TestStatus:
    def test_it_is_json_with_every_part(self, stack: ExitStack) -> None:
        page = Page()
        one = bench(stack, start(stack, page))
        one.tick()
        page.done, page.running = 20, 4
        one.tick()

        found = json.loads(get(stack, one, "/status")[1])

        assert found["ready"]
        assert found["workers"][0]["state"] == "serving"
        assert found["workers"][0]["model_name"] == "org/m"
        assert found["sinks"][0]["sink"] == "recorder"
        assert found["discovery"][0]["taken"]

    def test_the_page_in_every_state(self, stack: ExitStack) -> None:
        page = Page("<b>org</b>")
        one = bench(stack, start(stack, page))
        shown = []
        for done in (0, 20, 40):
            page.done, page.running = done, 4 if done else 0
            one.tick()
            shown.append(words(get(stack, one, "/")[1]))
        page.up = False
        one.tick()
        shown.append(words(get(stack, one, "/")[1]))

        assert "baseline" in shown[0]
        assert "capacity" in shown[2]
        assert "utilization" in shown[2]
        assert "<b>org</b>" in shown[2]  # escaped: it is text, not markup
        assert "unreachable" in shown[3]
        assert "HTTP 503" in shown[3]

    def test_before_a_worker_is_found(self, stack: ExitStack) -> None:
        one = Bench([])
        stack.callback(one.close)
        one.tick()

        page = words(status_page.render(status(one.agent, one.time.now)))

        assert "No worker found yet" in page


class TestAddress:
    def test_a_taken_port_is_one_sentence(self, stack: ExitStack) -> None:
        first = Server("127.0.0.1:0", {})
        stack.callback(first.stop)
        address = first.url.removeprefix("http://")

        with pytest.raises(SettingsError) as caught:
            Server(address, {})

        assert f"SIDECAR_LISTEN={address!r}" in str(caught.value)
        assert "in use" in str(caught.value)

    @pytest.mark.parametrize("listen", ["[::1]:0", "::1:0", "localhost:0"])
    def test_forms(self, listen: str) -> None:
        server = Server(listen, {})

        assert server.url.startswith("http://")
        server.stop()

    @pytest.mark.parametrize("listen", ["256.0.0.1:1", "10.255.255.1:9", "h:x", "1"])
    def test_an_address_that_is_not_ours(self, listen: str) -> None:
        with pytest.raises(SettingsError, match="cannot be used"):
            Server(listen, {})

    def test_no_name_server_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody needs the machine's name, and it may take half a minute."""
        asked: list[str] = []
        monkeypatch.setattr(socket, "getfqdn", asked.append)

        Server("127.0.0.1:0", {}).stop()

        assert asked == []


class TestSummary:
    """The line of `systemctl status`."""

    def test_before_a_worker_is_found(self, stack: ExitStack) -> None:
        one = bench(stack)
        one.agent.discovered = Discovered((), (Verdict("usual ports", "", False, ""),))

        assert summary(one.agent) == "no worker found yet"

    def test_disabled(self, stack: ExitStack) -> None:
        assert summary(bench(stack, enabled=False).agent).startswith(
            "SIDECAR_ENABLED is false"
        )

    def test_before_the_first_look(self) -> None:
        assert summary(Bench(sources=[]).agent) == "looking"

    def test_of_a_fault_of_ours(self) -> None:
        one = Bench(sources=[])
        one.agent.fault = ZeroDivisionError()

        assert (
            summary(one.agent) == "a fault in the loop: ZeroDivisionError, see the log"
        )

    def test_of_a_worker_at_work(self, stack: ExitStack) -> None:
        page = Page()
        one = bench(stack, start(stack, page))
        one.tick()
        page.done, page.running = 20, 4
        one.tick()

        address = one.agent.workers[0].target.address
        found = re.fullmatch(
            rf"{re.escape(address)} is serving, capacity (\S+)/s, utilization (\S+)",
            summary(one.agent),
        )

        assert found
        assert float(found[1]) > 4
        assert 0 < float(found[2]) < 1

    def test_of_trouble(self, stack: ExitStack) -> None:
        page, other = Page(), Page("org/n")
        one = bench(stack, start(stack, page), start(stack, other))
        one.tick()
        page.up = False
        one.tick()
        one.publisher.last_error = "refused"

        first, second, sink = summary(one.agent).split("; ")

        assert " is unreachable: " in first
        assert "503" in first
        assert " is idle, " in second
        assert sink == "cannot publish to recorder"
