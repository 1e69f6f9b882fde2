"""Waiting for the next tick, with the clock in the test's hand."""

from __future__ import annotations

import math
import threading

from sidecar.schedule import wait_until
from tests.unit.agent_bench import Time


class Sleep(threading.Event):
    """In place of sleeping, move the clock; stop when it has come so far."""

    def __init__(self, clock: Time, stop_at: float = math.inf) -> None:
        super().__init__()
        self._clock, self._stop_at = clock, stop_at
        self.slept: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.slept.append(timeout)
        self._clock.now += timeout
        return self._clock.now >= self._stop_at


class TestWaitUntil:
    def test_it_beats_while_it_waits(self) -> None:
        clock = Time()
        stop, beats = Sleep(clock), []

        wait_until(
            clock.now + 70, stop, clock, lambda: beats.append(clock.now - 1000), 30
        )

        assert stop.slept == [30, 30, 10]
        assert beats == [30, 60]

    def test_without_an_interval_it_waits_once(self) -> None:
        clock = Time()
        stop, beats = Sleep(clock), [0]

        wait_until(clock.now + 3600, stop, clock, beats.clear, math.inf)

        assert stop.slept == [3600]
        assert beats

    def test_it_ends_when_asked_to_stop(self) -> None:
        clock = Time()
        stop, beats = Sleep(clock, stop_at=clock.now + 40), [0]

        wait_until(clock.now + 3600, stop, clock, lambda: beats.append(1), 30)

        assert stop.slept == [30, 30]
        assert beats == [0, 1]

    def test_what_is_due_already_is_not_waited_for(self) -> None:
        clock = Time()
        stop = Sleep(clock)

        wait_until(clock.now - 1, stop, clock, lambda: None, 30)

        assert stop.slept == [0]
