"""The agent's turns, driven by hand against real pages over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sidecar.agent import AWAY_POLLS
from sidecar.discovery import Source
from sidecar.reading import Identity, Reading
from sidecar.states import State
from sidecar.target import Target
from tests.unit.agent_bench import POLL, Bench, Page, bench, start
from tests.unit.http_worker import Peer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


class TestTurns:
    def test_a_baseline_then_readings(self, stack: ExitStack) -> None:
        page = Page()
        found = start(stack, page)
        one = bench(stack, found)

        assert one.tick() == []
        page.done, page.running = 20, 4
        (reading,) = one.tick()

        assert reading.values.state is State.SERVING
        assert reading.values.throughput is not None
        worker = f"vm1:{found.target.port}"
        assert reading.identity == Identity("org_m", "org/m", worker)
        assert reading.time == 1e9 + one.time.now - POLL
        assert one.sink.readings == [reading]
        assert one.agent.ready

    def test_a_failed_poll_skips_the_tick(self, stack: ExitStack) -> None:
        page = Page()
        one = bench(stack, start(stack, page))
        one.tick(2)
        page.up = False

        assert one.tick() == []
        page.up, page.done = True, 30
        (reading,) = one.tick()

        assert reading.values.throughput == pytest.approx(30 / 15)
        assert (one.polls("ok"), one.polls("http_status")) == (3, 1)

    def test_workers_do_not_wait_for_each_other(self, stack: ExitStack) -> None:
        good, dead = Page(), Page()
        dead.up = False
        one = bench(stack, start(stack, good), start(stack, dead))

        one.tick()
        readings = one.tick()

        assert [r.values.state for r in readings] == [State.IDLE]
        assert one.agent.is_alive

    def test_two_models_in_one_tag_both_get_a_hash(self, stack: ExitStack) -> None:
        one = bench(stack, start(stack, Page("a/b")), start(stack, Page("a_b")))

        one.tick()
        tags = {reading.identity.tag for reading in one.tick()}

        assert len(tags) == 2
        assert all(tag.startswith("a_b_") for tag in tags)


class TestRetiring:
    def test_an_unreachable_worker_after_a_while(self, stack: ExitStack) -> None:
        page = Page()
        one = bench(stack, start(stack, page), retire_after=30)
        (reading,) = one.tick(2)
        page.up = False

        one.tick(5)
        assert one.sink.retired == []
        one.tick(3)

        assert one.sink.retired == [reading.identity]
        page.up = True
        assert one.tick() == []  # a new baseline after the gap
        assert len(one.tick()) == 1

    def test_a_model_that_changed_gets_new_series(self, stack: ExitStack) -> None:
        page = Page("org/old")
        one = bench(stack, start(stack, page))
        (old,) = one.tick(2)
        page.model = "org/new"

        (new,) = one.tick(2)

        assert new.identity.tag == "org_new"
        assert one.sink.retired == [old.identity]

    def test_everything_on_stop(self, stack: ExitStack) -> None:
        one = bench(stack, start(stack, Page()))
        (reading,) = one.tick(2)

        one.agent.stop(1.0)
        one.agent.stop(1.0)

        assert one.sink.retired == [reading.identity]


def source(*peers: Peer) -> Source:
    targets = tuple(
        Target("http", "127.0.0.1", found.target.port, origin="by hand")
        for found in peers
    )
    return Source("by hand", targets)


class TestRediscovery:
    def test_looking_at_every_poll_until_a_worker_is_there(
        self, stack: ExitStack
    ) -> None:
        one = Bench([])
        stack.callback(one.close)
        assert one.tick(3) == []
        assert not one.agent.ready

        one.sources = [source(start(stack, Page()))]
        one.tick()

        assert len(one.tick()) == 1
        assert len([line for line in one.lines() if "no worker found" in line]) == 1

    def test_a_worker_that_moved_goes_on_under_its_new_port(
        self, stack: ExitStack
    ) -> None:
        before, after = Page(), Page()
        one = Bench([source(start(stack, before))], worker="w")
        stack.callback(one.close)
        for _ in range(11):
            before.done, before.running = before.done + 20, 4
            one.tick()
        learned = one.agent.workers[0].pipeline.estimate
        before.up = False

        one.sources = [source(start(stack, after))]
        one.tick(AWAY_POLLS + 1)
        after.done, after.running = 20, 4
        (reading,) = one.tick()

        assert len(one.agent.workers) == 1
        assert learned is not None
        assert reading.values.capacity == pytest.approx(learned.capacity, rel=0.2)
        assert any("is now" in line for line in one.lines())

    def test_a_second_worker_is_found_beside_a_healthy_one(
        self, stack: ExitStack
    ) -> None:
        first = start(stack, Page())
        one = Bench([source(first)])
        stack.callback(one.close)
        one.tick(2)

        one.sources = [source(first, start(stack, Page("org/second")))]
        one.tick(14)

        assert len(one.agent.workers) == 2

    def test_one_that_is_gone_is_forgotten(self, stack: ExitStack) -> None:
        page = Page()
        one = Bench([source(start(stack, page))], retire_after=10)
        stack.callback(one.close)
        one.tick(2)
        page.up = False
        one.sources = []

        one.tick(6)

        assert one.agent.workers == []


class TestLog:
    def test_a_line_a_change_not_a_line_a_poll(self, stack: ExitStack) -> None:
        page = Page()
        one = bench(stack, start(stack, page))
        page.up = False
        one.tick(12)

        about = [line for line in one.lines() if "no reading" in line]
        assert len(about) == 1

        page.up = True
        one.tick(3)
        states = [line.rpartition(" ")[2] for line in one.lines() if " is " in line]
        assert states == ["baseline", "idle"]

    def test_disabled_it_turns_and_polls_nothing(self, stack: ExitStack) -> None:
        page = start(stack, Page())
        stop, beats = threading.Event(), [0]
        one = bench(stack, page, enabled=False, beat=lambda: beat())

        def beat() -> None:
            beats.append(1)
            if len(beats) > 2:
                stop.set()

        one.agent.run(stop)

        assert len(beats) == 3
        assert one.agent.workers == []

    def test_a_fault_of_ours_does_not_end_the_loop(
        self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beats: list[Exception | None] = []
        one: Bench = bench(
            stack,
            start(stack, Page()),
            beat=lambda: beats.append(one.agent.fault),
        )
        stop = threading.Event()

        def fail() -> list[Reading]:
            stop.set()
            raise ZeroDivisionError

        monkeypatch.setattr(one.agent, "tick", fail)
        one.agent.run(stop)

        assert one.lines("error") == ["a fault in the loop; going on"]
        assert [type(fault) for fault in beats] == [type(None), ZeroDivisionError]
