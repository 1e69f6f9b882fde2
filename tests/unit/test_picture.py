"""The learned curve as points and a line, against what the polls were made of."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from sidecar.estimators.base import Estimate, Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.knowledge import Knowledge
from sidecar.estimators.picture import Picture, Rate, picture
from sidecar.estimators.work import Unit
from sidecar.interval import Interval
from tests.unit.makers import interval

LIMIT = 32.0
LOADS = (2.0, 6.0, 12.0)
TOKENS, PROMPT_TOKENS = 50.0, 100.0


def rate(n: float) -> float:
    """Requests/s of a worker that takes 2 s and 0.05 s for each that runs."""
    return n / (2 + 0.05 * n)


def polls(loads: Iterable[float], unit: Unit) -> Iterable[Interval]:
    """Two minutes at each concurrency, without noise, counted in such units."""
    at = 0.0
    for n in loads:
        for _ in range(24):
            at, done = at + 5, 5 * rate(n)
            counted: dict[str, Any] = {}
            if unit is not Unit.REQUEST:
                counted["generation_tokens"] = TOKENS * done
                counted["prompt_tokens"] = PROMPT_TOKENS * done
            if unit is Unit.DECODED_TOKEN:
                # A prefill takes 0.1 s of a request's time.
                counted["decode_tokens"] = TOKENS * done
                counted["decode_seconds"] = 5 * n - 0.1 * done
                counted["prefill_seconds"] = 0.1 * done
            yield interval(at, done, (n, n), **counted)


def learned(intervals: Iterable[Interval]) -> tuple[Knowledge, Estimate]:
    known = Learning.begin(CurveEstimator(LIMIT))
    for each in intervals:
        known = known.after(each)
    assert known.estimate
    return known.state, known.estimate


def drawn(intervals: Iterable[Interval]) -> tuple[Picture, Estimate]:
    state, estimate = learned(intervals)
    found = picture(state, estimate)
    assert found
    return found, estimate


@pytest.mark.parametrize("unit", Unit)
class TestWhateverIsCounted:
    def test_levels_are_the_requests_that_came_out(self, unit: Unit) -> None:
        found, _ = drawn(polls(LOADS, unit))

        for n in LOADS:
            # Where the engine sums its requests' time they meet a few more than run on
            # average.
            near = [
                each.rate for each in found.levels if n - 0.1 < each[0][0] < n + 0.9
            ]
            assert near
            for each in near:
                assert each.middle == pytest.approx(rate(each.concurrency), rel=0.05)
                assert each.lower < each.middle < each.upper

    def test_levels_are_in_order_and_rest_on_the_completions(self, unit: Unit) -> None:
        found, estimate = drawn(polls(LOADS, unit))

        assert list(found.levels) == sorted(found.levels)
        rests_on = sum(level.completions for level in found.levels)
        assert 0.8 * estimate.evidence < rests_on <= estimate.evidence

    def test_the_line_ends_in_the_estimate(self, unit: Unit) -> None:
        found, estimate = drawn(polls(LOADS, unit))

        capacity, lower, upper = estimate.capacity, estimate.lower, estimate.upper
        assert found.capacity == (LIMIT, capacity, lower, upper)
        assert found.line[-1] == pytest.approx(found.capacity)
        assert found.line[0].concurrency == 1.0
        assert found.limited_by == "sequence limit"

    def test_the_line_is_in_order_and_near_the_levels(self, unit: Unit) -> None:
        found, _ = drawn(polls(LOADS, unit))

        for earlier, later in pairwise(found.line):
            assert earlier.concurrency < later.concurrency
        for level in found.levels:
            n = level.rate.concurrency
            near = min(found.line, key=lambda each: abs(each.concurrency - n))
            assert near.middle == pytest.approx(level.rate.middle, rel=0.1)


def test_what_the_queue_showed_is_not_in_the_line() -> None:
    slow = [
        interval(1000 + 5 * i, 5 * 7, (LIMIT, LIMIT), (9, 9), preemptions=9)
        for i in range(20)
    ]
    found, estimate = drawn([*polls(LOADS, Unit.REQUEST), *slow])

    assert found.capacity.middle == estimate.capacity
    (at_limit,) = [each for each in found.line if each[0] == found.capacity[0]]
    assert at_limit.middle > found.capacity.middle > 7


def test_the_line_goes_on_to_levels_beyond_the_limit() -> None:
    state, _ = learned(polls(LOADS, Unit.REQUEST))
    told = Estimate(3.0, 2.5, 3.5, concurrency_limit=8.0, limited_by="objective")

    found = picture(state, told)

    assert found
    assert found.line[-1].concurrency == found.levels[-1].rate.concurrency
    assert 8.0 in [each.concurrency for each in found.line]


def test_a_limit_of_one_request() -> None:
    state, _ = learned(polls([1.0], Unit.REQUEST))

    found = picture(state, Estimate(0.5, 0.4, 0.6, concurrency_limit=1.0))

    assert found
    assert [each.concurrency for each in found.line] == [1.0]


def test_time_in_service_by_littles_law() -> None:
    assert Rate(8.0, 4.0, 2.0, 5.0).time == (2.0, 1.6, 4.0)


def test_nothing_is_drawn_of_nothing() -> None:
    state, estimate = learned(polls(LOADS, Unit.REQUEST))

    assert picture(Knowledge(), estimate) is None
    assert picture(state, None) is None
    assert picture(state, Estimate(3.0)) is None
