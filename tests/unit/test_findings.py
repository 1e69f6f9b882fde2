"""What a hostile reading of the product found, kept found."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import structlog

from sidecar import environment, naming, sinks, target
from sidecar.errors import SettingsError, SinkError
from sidecar.estimators.limits import Seen, lowest
from sidecar.service import Service
from sidecar.states import State
from tests.process.web import fetch
from tests.unit.agent_bench import Bench, Page, bench, start
from tests.unit.http_worker import answer
from tests.unit.makers import IDENTITY, interval, reading
from tests.unit.test_publisher import Bench as PublisherBench


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


class Odd(Page):
    """A page whose raw answer a test may replace."""

    raw: bytes | None = None

    def __call__(self, line: str) -> bytes:
        return self.raw or super().__call__(line)


def one_polled(stack: ExitStack) -> tuple[Bench, Odd]:
    page = Odd()
    found = bench(stack, start(stack, page), retire_after=30)
    found.tick()
    page.done, page.running = 20, 4
    found.tick()
    return found, page


class TestOddPages:
    @pytest.mark.parametrize(
        "raw",
        [
            answer("", "302 Found", Location="http://[::1"),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\na\r\n",
            answer("vllm:num_requests_running 1e200\nvllm:request_success_total 1\n"),
            answer("vllm:num_requests_running -4\nvllm:request_success_total 1\n"),
        ],
        ids=["url", "chunk", "huge", "negative"],
    )
    def test_they_are_failed_polls(self, stack: ExitStack, raw: bytes) -> None:
        found, page = one_polled(stack)
        page.raw = raw

        assert found.tick() == []
        assert found.agent.workers[0].state is State.UNREACHABLE
        assert found.lines("error") == []

    def test_a_fault_in_the_estimator_is_a_failed_poll(
        self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other worker goes on, and no old value gets a new time."""
        good, bad = Page(), Page()
        found = bench(stack, start(stack, good), start(stack, bad), retire_after=20)
        found.tick(2)

        def fail(_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(found.agent.workers[1].pipeline, "advance", fail)
        readings = found.tick(8)

        assert len(readings) == 1
        assert len(found.sink.retired) == 1
        assert found.polls("fault") == 8
        assert len([line for line in found.lines() if "fault" in line]) == 1

    def test_tiny_numbers_are_no_requests(self, stack: ExitStack) -> None:
        found, page = one_polled(stack)
        for i in range(20):
            page.done, page.running = 20 + i, 1e-300
            found.tick()

        assert found.agent.workers[0].error is None

    def test_a_worker_that_is_always_new_is_retired(self, stack: ExitStack) -> None:
        found, page = one_polled(stack)
        for done in range(19, 9, -1):
            page.done = done
            found.tick()

        assert len(found.sink.retired) == 1


class TestHealth:
    def test_switched_off_is_alive_for_ever(self, stack: ExitStack) -> None:
        found = bench(stack, enabled=False)
        found.time.now += 1e6

        assert found.agent.is_alive

    def test_switched_off_has_no_time_of_a_last_poll(self) -> None:
        """Zero would be a sidecar that has found no worker for fifty years."""
        told = []
        for enabled in (True, False):
            settings = environment.load(
                {}, enabled=enabled, listen="127.0.0.1:0"
            ).settings
            service = Service(settings, structlog.get_logger(), environ={})
            assert service.server
            service.server.start()
            page = fetch(f"{service.server.url}/metrics")
            told.append("sidecar_last_poll_success" in page)
            service.stop()

        assert told == [True, False]


class TestIdentity:
    def test_loopback_addresses_are_told_apart(self) -> None:
        settings = environment.load({}).settings
        pairs = [(target.parse(f"127.0.0.{i}:8000"), "m") for i in (1, 2)]

        one, two = naming.identities(pairs, settings, "vm")

        assert one.worker != two.worker

    @pytest.mark.parametrize("pair", ["127.0.0.1:1,localhost:1", "[::1]:1,1"])
    def test_one_worker_by_two_names(self, pair: str) -> None:
        with pytest.raises(SettingsError, match="one worker twice"):
            environment.load({"SIDECAR_TARGETS": pair})


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SIDECAR_MULTIPLIER", "1e308"),
            ("SIDECAR_PUSHGATEWAY_INTERVAL", "1e12"),
            ("SIDECAR_LABELS", "__name__=x"),
            ("SIDECAR_LABELS", "a=1,a=2"),
            ("SIDECAR_SINKS", ","),
            ("SIDECAR_PUSHGATEWAY_URL", "http://gw:9091?x=y"),
            ("SIDECAR_PUSHGATEWAY_URL", "http://gw:9091/a b"),
            ("SIDECAR_TARGETS", "http://a b:1"),
        ],
    )
    def test_what_would_fail_later_fails_at_the_start(
        self, name: str, value: str
    ) -> None:
        with pytest.raises(SettingsError):
            environment.load({name: value})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SIDECAR_PUSHGATEWAY_URL", "http://user:pa ss@h:9091"),
            ("SIDECAR_TARGETS", "http://user:pa ss@h:1"),
        ],
    )
    def test_a_password_with_a_blank_is_hidden(self, name: str, value: str) -> None:
        with pytest.raises(SettingsError) as caught:
            environment.load({name: value})

        assert "ss@" not in str(caught.value)

    def test_arguments_are_added_to_the_environment(self) -> None:
        environ = {"SIDECAR_PUSHGATEWAY_JOB": "mine"}

        nested = environment.load(environ, pushgateway={"url": "http://g:1"}).settings
        flat = environment.load(environ, pushgateway_url="http://g:1").settings

        assert nested.pushgateway.job == flat.pushgateway.job == "mine"
        assert nested.pushgateway.url == flat.pushgateway.url == "http://g:1"

    def test_labels_of_an_argument_are_checked_too(self) -> None:
        with pytest.raises(SettingsError):
            environment.load({}, labels={"a b": "c"})


class TestLog:
    def test_a_state_that_stays_after_flapping_is_told(self, stack: ExitStack) -> None:
        page = Page()
        found = bench(stack, start(stack, page), retire_after=1000)
        for up in [True] * 3 + [False] * 2 + [True] * 2 + [False] * 30:
            page.up = up
            found.tick()

        assert "no reading" in found.lines()[-1]


class TestLimits:
    def test_the_limit_is_not_below_what_runs(self) -> None:
        seen = Seen().after(interval(5, 9, running=(600, 600)))

        assert lowest(seen, None).requests == 600


class TestGateway:
    def test_an_answer_that_trickles_is_cut_at_the_time_limit(self) -> None:
        done = threading.Event()

        def trickle(listener: socket.socket) -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 No\r\nContent-Length: 9999\r\n\r\n")
                while not done.wait(0.02):
                    connection.sendall(b"x")

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=trickle, args=[listener])
            thread.start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            settings = environment.load(
                {}, pushgateway={"url": url, "timeout": 0.3}
            ).settings
            started = time.monotonic()
            with pytest.raises(SinkError, match="xxx"):
                sinks.build("pushgateway", settings).publish([reading()])
            done.set()
            thread.join()

        assert time.monotonic() - started < 5


class TestRetiring:
    def test_series_that_could_not_be_taken_away_are_tried_again(self) -> None:
        one = PublisherBench()
        one.publisher.offer([reading()])
        one.publisher.turn()
        one.sink.error = SinkError("away", reason="unreachable")
        one.publisher.retire([IDENTITY])
        for _ in range(4):
            one.publisher.turn()
            one.now += 3.0
        one.sink.error = None
        one.now += 10.0
        one.publisher.turn()
        one.publisher.turn()

        attempts = [call for call in one.sink.calls if call[0] == "retire"]
        assert len(attempts) == 3
