from __future__ import annotations

from math import exp, floor, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.estimators.levels import KEEP, MEMORY, STEP, Levels
from sidecar.estimators.work import Unit, Work
from tests.unit.makers import interval


def window(n: float, units: float = 30.0) -> Work:
    return Work(30.0, 30 * n, 30 * n * n, units, units, 0.0, 6.0, 6 * n)


class TestLevels:
    def test_a_request_s_window_is_filed_by_its_neighbours(self) -> None:
        """Its own noise has no part in where it goes."""
        levels = Levels()
        for n in (8.0, 16.0, 8.0, 8.0):
            levels = levels.after(window(n), Unit.REQUEST)

        assert levels.works[floor(log(8.0) / STEP)].mean == 16.0

    def test_tokens_are_filed_by_their_rate(self) -> None:
        levels = Levels()
        for n, units in ((8.0, 3000.0), (12.0, 3000.0), (9.0, 6000.0)):
            levels = levels.after(window(n, units), Unit.TOKEN)

        assert sorted(work.mean for work in levels.works.values()) == [
            pytest.approx(9.0),
            pytest.approx(10.0, rel=0.01),
        ]

    def test_the_window_that_waits_is_evidence_too(self) -> None:
        levels = Levels().after(window(8), Unit.REQUEST)

        assert not levels.works
        assert [work.mean for work in levels.all()] == [8.0]

    def test_the_old_fades(self) -> None:
        levels = Levels().after(window(100, 9000.0), Unit.TOKEN)
        first = next(iter(levels.works))
        for _ in range(int(MEMORY)):
            levels = levels.after(window(2, 300.0), Unit.TOKEN)

        assert levels.works[first].polls == pytest.approx(6 * exp(-1), rel=0.01)
        assert levels.highest == pytest.approx(100 * KEEP**MEMORY)

    def test_steady_load_does_not_drive_out_what_was_seen_of_others(self) -> None:
        levels = Levels().after(window(100, 9000.0), Unit.TOKEN)
        for _ in range(200):
            levels = levels.after(window(2, 300.0), Unit.TOKEN)

        assert len(levels.works) == 2

    @given(st.lists(st.floats(0.001, 5000), min_size=1, max_size=300))
    def test_nothing_is_lost_but_by_fading(self, loads: list[float]) -> None:
        levels = Levels()
        for load in loads:
            levels = levels.after(window(load), Unit.REQUEST)

        polls = sum(work.polls for work in levels.all())
        newest = sum(6 * KEEP**i for i in range(len(loads)))
        assert polls == pytest.approx(newest, rel=0.01)
        assert len(levels.works) <= len(loads)

    def test_faded(self) -> None:
        levels = Levels().after(window(8, 900.0), Unit.TOKEN).faded(0.5)

        assert next(levels.all()).units == 450.0
        assert next(levels.all()).mean == 8.0


class TestWork:
    def test_the_best_unit(self) -> None:
        assert Unit.best(interval(5, 1)) is Unit.REQUEST
        assert Unit.best(interval(5, 1, generation_tokens=9.0)) is Unit.TOKEN
        timed = interval(5, 1, decode_seconds=1.0, decode_tokens=9.0)
        assert Unit.best(timed) is Unit.DECODED_TOKEN

    def test_the_concurrency_that_a_request_meets_is_above_the_mean(self) -> None:
        """Half the time ten run, half the time none: those that run are ten."""
        work = Work()
        for i in range(20):
            n = 10.0 * (i % 2)
            work = work.after(interval(5.0 * i, 10, running=(n, n)), Unit.REQUEST)

        assert work.mean == 5.0
        assert work.concurrency(Unit.REQUEST) == 10.0

    def test_what_a_mean_over_a_long_interval_hides_is_itself(self) -> None:
        """Half a request on average, a second each, read once a minute."""
        work = Work()
        for i in range(1, 11):
            each = interval(60.0 * i, 30, decode_seconds=30.0, decode_tokens=3000.0)
            one = each.__class__(**{**vars(each), "duration": 60.0})
            work = work.after(one, Unit.DECODED_TOKEN)

        assert work.concurrency(Unit.DECODED_TOKEN) == pytest.approx(1.5, abs=0.05)

    def test_readings_far_apart_are_as_many_draws(self) -> None:
        fast = Work(60.0, 240.0, 1000.0, 600.0, 600.0, 0.0, 12.0, 48.0)
        slow = Work(60.0, 240.0, 1000.0, 2.0, 2.0, 0.0, 12.0, 48.0)

        assert fast.gauge_variance == pytest.approx(1 / 48, rel=0.5)
        assert slow.gauge_variance < 0.1 / 48
