from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import pytest
import structlog
from structlog.testing import LogCapture

from sidecar.errors import SinkError
from sidecar.log import Changes
from sidecar.reading import Identity, Reading
from sidecar.sinks.publisher import EARLY, Publisher
from sidecar.telemetry import Telemetry
from tests.unit.makers import IDENTITY, reading

SOON = 5.0


class Sink:
    """A sink that does as it is told."""

    name = "sink"

    def __init__(self, interval: float = 0.0) -> None:
        self.interval = interval
        self.calls: list[tuple[str, float]] = []
        self.error: Exception | None = None
        self.called = threading.Event()
        self.hold: threading.Event | None = None
        self.closed = 0

    def check(self) -> str:
        return "ok"

    def publish(self, readings: Sequence[Reading]) -> None:
        self.calls += [("publish", each.time) for each in readings]
        self.called.set()
        if self.hold:
            self.hold.wait(SOON)
        if self.error:
            raise self.error

    def retire(self, identities: Sequence[Identity]) -> None:
        self.calls += [("retire", len(identities))]
        if self.error:
            raise self.error

    def close(self) -> None:
        self.closed += 1


class Bench:
    """A publisher with its clock and log in a test's hand."""

    def __init__(self, interval: float = 0.0) -> None:
        self.now = 100.0
        self.sink = Sink(interval)
        self.telemetry = Telemetry()
        self.logged = LogCapture()
        log = structlog.wrap_logger(
            structlog.PrintLogger(),
            processors=[self.logged],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.publisher = Publisher(
            self.sink,
            self.telemetry,
            Changes(log, lambda: self.now),
            lambda: self.now,
        )

    def count(self, name: str, **labels: str) -> float:
        labels["sink"] = "sink"
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


class TestPace:
    def test_the_newest_reading_at_the_sinks_pace(self) -> None:
        one = Bench(interval=15.0)
        for time in range(8):
            one.publisher.offer([reading(time=float(time))])
            one.publisher.turn()
            one.now += 5.0

        assert one.sink.calls == [("publish", 0.0), ("publish", 3.0), ("publish", 6.0)]

    def test_a_reading_is_never_sent_late(self) -> None:
        """It is sent when it comes, or the next one is."""
        one = Bench(interval=15.0)
        one.publisher.offer([reading(time=0.0)])
        one.publisher.turn()
        one.now += 5.0
        one.publisher.offer([reading(time=5.0)])
        one.publisher.turn()
        one.now += 60.0
        one.publisher.turn()

        assert one.sink.calls == [("publish", 0.0)]

    def test_polls_a_little_early_cost_no_publication(self) -> None:
        one = Bench(interval=5.0)
        for i in range(5):
            one.publisher.offer([reading(time=float(i))])
            one.publisher.turn()
            one.now += 4.95

        assert len(one.sink.calls) == 5

    @pytest.mark.parametrize("poll", [1.0, 3.0, 4.0, 4.9, 5.0, 7.0])
    def test_publications_are_no_closer_than_the_interval(self, poll: float) -> None:
        one, times = Bench(interval=5.0), []
        for _ in range(200):
            before = len(one.sink.calls)
            one.publisher.offer([reading()])
            one.publisher.turn()
            if len(one.sink.calls) > before:
                times.append(one.now)
            one.now += poll

        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert min(gaps) >= (1 - EARLY) * 5.0
        assert max(gaps) <= 5.0 + poll

    def test_nothing_comes_after_the_end(self) -> None:
        one = Bench()
        one.publisher.stop()
        one.publisher.offer([reading()])
        one.publisher.turn()

        assert one.sink.calls == []

    def test_no_reading_is_sent_twice(self) -> None:
        one = Bench()
        one.publisher.offer([reading()])
        one.publisher.turn()
        one.publisher.turn()

        assert len(one.sink.calls) == 1

    def test_missed_times_are_not_caught_up(self) -> None:
        one = Bench(interval=15.0)
        for gap in (0.0, 100.0, 1.0, 1.0):
            one.now += gap
            one.publisher.offer([reading(time=one.now)])
            one.publisher.turn()

        assert len(one.sink.calls) == 2


class TestTrouble:
    def test_what_was_refused_is_dropped_and_counted(self) -> None:
        one = Bench()
        one.sink.error = SinkError("no", reason="http_400")
        for time in (1.0, 2.0, 3.0):
            one.publisher.offer([reading(time=time)])
            one.publisher.turn()
        one.sink.error = None
        one.publisher.offer([reading(time=4.0)])
        one.publisher.turn()

        assert one.sink.calls == [("publish", t) for t in (1.0, 2.0, 3.0, 4.0)]
        assert one.count("sidecar_dropped_total", reason="http_400") == 3
        assert one.count("sidecar_publishes_total", outcome="failed") == 3
        assert one.count("sidecar_publishes_total", outcome="ok") == 1
        lines = [entry["event"] for entry in one.logged.entries]
        assert lines == ["sink: cannot publish: no", "publishing to sink"]
        assert one.logged.entries[1]["repeated"] == 2

    def test_a_fault_in_a_sink_is_its_own_trouble(self) -> None:
        one = Bench()
        one.sink.error = ZeroDivisionError("oops")
        one.publisher.offer([reading()])
        one.publisher.turn()

        assert one.publisher.last_error is not None
        assert "ZeroDivisionError: oops" in one.publisher.last_error
        assert one.count("sidecar_dropped_total", reason="fault") == 1


class TestRetiring:
    def test_only_what_was_published_and_before_what_comes_next(self) -> None:
        one = Bench()
        other = Identity("x", "x", "other")
        one.publisher.retire([IDENTITY])
        one.publisher.offer([reading()])
        one.publisher.turn()
        one.publisher.retire([IDENTITY, other])
        one.publisher.offer([reading(other, time=2.0)])
        one.publisher.turn()

        assert one.sink.calls == [("publish", 1e9), ("retire", 1), ("publish", 2.0)]

    def test_a_worker_that_comes_back_is_not_taken_away(self) -> None:
        one = Bench()
        one.publisher.offer([reading()])
        one.publisher.turn()
        one.publisher.retire([IDENTITY])
        one.publisher.offer([reading(time=2.0)])
        one.publisher.turn()

        assert one.sink.calls == [("publish", 1e9), ("publish", 2.0)]

    def test_a_failed_retirement_is_said(self) -> None:
        one = Bench()
        one.publisher.offer([reading()])
        one.publisher.turn()
        one.sink.error = SinkError("gone", reason="unreachable")
        one.publisher.stop()

        assert one.publisher.last_error == "gone"
        assert one.sink.closed == 1


def test_only_what_was_lost_is_counted() -> None:
    one = Bench()
    one.sink.error = SinkError("one of two", reason="refused", dropped=1)
    one.publisher.offer([reading(), reading(Identity("m", "org/m", "host:8001"))])
    one.publisher.turn()

    dropped = one.telemetry.registry.get_sample_value(
        "sidecar_dropped_total", {"sink": "sink", "reason": "refused"}
    )
    assert dropped == 1


class TestThread:
    def test_it_publishes_and_retires_by_itself(self) -> None:
        one = Bench()
        one.publisher.start()
        one.publisher.offer([reading()])
        assert one.sink.called.wait(SOON)

        one.publisher.stop()

        assert one.publisher.join(SOON)
        assert one.sink.calls == [("publish", 1e9), ("retire", 1)]
        assert one.sink.closed == 1

    def test_a_sink_that_hangs_holds_up_neither_offers_nor_the_end(self) -> None:
        one = Bench()
        one.sink.hold = threading.Event()
        one.publisher.start()
        one.publisher.offer([reading()])
        assert one.sink.called.wait(SOON)

        one.publisher.offer([reading()])
        one.publisher.stop()

        assert not one.publisher.join(0.0)
        one.sink.hold.set()
        assert one.publisher.join(SOON)
