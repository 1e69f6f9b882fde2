from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pytest

from sidecar.estimators.base import Estimate
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.rate import RateEstimator
from sidecar.interval import Interval
from sidecar.pipeline import Pipeline
from sidecar.reading import (
    NAMES,
    SIGNAL_PREFIX,
    STATE,
    TIMESTAMP,
    Identity,
    Values,
    gauges,
)
from sidecar.states import State
from tests.unit.makers import reading, sample


def line(**more: Any) -> Pipeline:
    return Pipeline(RateEstimator("last", 60, floor=0.0), **more)


class TestWhatEachStatePublishes:
    def test_the_first_sample_is_a_baseline(self) -> None:
        assert line().advance(sample(0, 500, 3)) == Values(State.BASELINE)

    def test_serving_publishes_all(self) -> None:
        one = line(multiplier=2.0)
        one.advance(sample(0, 0, 2))

        values = one.advance(sample(5, 20, 4))

        assert values.state is State.SERVING
        assert (values.capacity, values.published) == (4.0, 8.0)
        assert (values.throughput, values.demand) == (4.0, 22 / 5)
        assert (values.running, values.waiting) == (4.0, 0.0)
        assert values.utilization == pytest.approx(22 / 20)

    def test_a_minimum_lifts_the_signal_only(self) -> None:
        one = line(minimum=10.0)
        one.advance(sample(0, 0, 2))

        values = one.advance(sample(5, 20, 4))

        assert (values.capacity, values.published) == (4.0, 10.0)

    def test_idle_holds_the_capacity_at_utilization_zero(self) -> None:
        one = Pipeline(CurveEstimator(16))
        for i in range(12):
            one.advance(sample(5.0 * i, 20.0 * i, 4))
        held = one.advance(sample(60, 240, 0))
        idle = [one.advance(sample(60 + 5.0 * i, 240, 0)) for i in range(1, 20)]

        assert {values.state for values in idle} == {State.IDLE}
        assert {values.capacity for values in idle} == {held.capacity}
        assert {values.utilization for values in idle} == {0.0}

    def test_stalled_publishes_no_capacity(self) -> None:
        one = Pipeline(RateEstimator("max"))
        for i in range(5):
            one.advance(sample(5.0 * i, 10.0 * i, 4))

        frozen = [one.advance(sample(20 + 5.0 * i, 40, 4)) for i in range(1, 5)]

        assert frozen[-1].state is State.STALLED
        assert frozen[-1].capacity is None
        assert frozen[-1].published is None
        assert frozen[-1].utilization is not None

    def test_sleeping_publishes_the_state_and_wakes_to_a_baseline(self) -> None:
        one = line()
        one.advance(sample(0, 5))

        assert one.advance(sample(5, 5, sleeping=True)) == Values(State.SLEEPING)
        assert one.advance(sample(10, 9)).state is State.BASELINE
        assert one.advance(sample(15, 12)).state is State.SERVING


class TestNewBeginnings:
    def test_a_reset_is_a_baseline_and_keeps_the_estimate(self) -> None:
        one = line()
        one.advance(sample(0, 0))
        before = one.advance(sample(5, 20)).capacity

        assert one.advance(sample(10, 3)).state is State.BASELINE
        assert one.estimate is not None
        assert one.estimate.capacity == before

    def test_a_failed_poll_counts_the_real_time(self) -> None:
        one = line(longest_gap=60.0)
        one.advance(sample(0, 0))

        assert one.advance(sample(30, 60)).throughput == 2.0

    def test_a_long_gap_is_a_baseline(self) -> None:
        one = line(longest_gap=60.0)
        one.advance(sample(0, 0))

        assert one.advance(sample(61, 60)).state is State.BASELINE

    @pytest.mark.parametrize(
        "change",
        [{"model_name": "org/other"}, {"engine": "dynamo"}, {"kv_tokens": 9.0}],
    )
    def test_another_worker_begins_without_an_estimate(
        self, change: dict[str, float]
    ) -> None:
        one = line()
        one.advance(sample(0, 0, kv_tokens=1.0))
        one.advance(sample(5, 20, kv_tokens=1.0))

        one.advance(sample(10, 30, **{"kv_tokens": 1.0, **change}))

        assert one.estimate is None

    def test_another_estimator_goes_on_with_what_was_learned(self) -> None:
        one = Pipeline(CurveEstimator(16))
        for i in range(12):
            one.advance(sample(5.0 * i, 20.0 * i, 4))
        before = one.estimate

        one.use(CurveEstimator(32))

        assert one.estimate == before
        assert one.advance(sample(60, 240, 4)).concurrency_limit == 32


@dataclass(frozen=True)
class Known:
    """An estimator that was told the capacity."""

    capacity: float
    limit: float = 16.0

    def start(self) -> None:
        return None

    def step(self, state: None, interval: Interval) -> tuple[None, Estimate]:
        del interval
        return state, Estimate(self.capacity, concurrency_limit=self.limit)


class TestUtilization:
    def test_a_queue_that_stays_is_a_little_above_one(self) -> None:
        one = Pipeline(CurveEstimator(8))
        for i in range(12):
            values = one.advance(sample(5.0 * i, 20.0 * i, 8, waiting=16.0))

        assert values.state is State.SATURATED
        assert values.utilization is not None
        # 16 requests in five minutes, on top of the 4 a second that are all it can do.
        assert values.utilization == pytest.approx(1 + 16 / 300 / 4, rel=0.01)

    def test_a_queue_is_one_whatever_the_capacity_was_taken_for(self) -> None:
        one = Pipeline(Known(100.0))
        for i in range(12):
            values = one.advance(sample(5.0 * i, 20.0 * i, 8, waiting=16.0))

        assert values.state is State.SATURATED
        assert values.utilization == 1.0

    def test_bursts_are_not_thinned_by_the_pauses_between_them(self) -> None:
        """The zeros of the pauses are what an autoscaler averages already."""
        one, done, found = Pipeline(Known(4.0)), 0.0, []
        for i in range(120):
            busy = i % 12 < 6
            done += 15.0 if busy else 0.0
            values = one.advance(sample(5.0 * i, done, 6 if busy else 0))
            found.append(values.utilization or 0.0)

        assert max(found[24:]) == pytest.approx(3 / 4, rel=0.2)
        assert fmean(found[24:]) == pytest.approx(3 / 4 / 2, rel=0.2)

    def test_one_departure_of_a_slow_worker_is_no_rate(self) -> None:
        """One request a minute in the first seconds is not twelve times too many."""
        one = Pipeline(Known(1 / 60, limit=1.0))
        for i in range(3):
            one.advance(sample(5.0 * i, 0.0, 1))
        values = one.advance(sample(15.0, 1.0, 1))

        assert values.utilization == 1.0

    def test_unknown_without_a_capacity(self) -> None:
        one = Pipeline(CurveEstimator(8))
        one.advance(sample(0, 0, 1))

        assert one.advance(sample(5, 0, 1)).utilization is None


class TestNames:
    def test_a_full_reading(self) -> None:
        full = reading(
            capacity_lower=1.0,
            capacity_upper=2.0,
            throughput=3.0,
            demand=4.0,
            running=5.0,
            waiting=6.0,
            concurrency_limit=7.0,
        )

        found = {gauge.name: gauge for gauge in gauges(full)}

        assert set(found) == {*NAMES, f"{SIGNAL_PREFIX}m"}
        assert found[f"{SIGNAL_PREFIX}m"].value == 12.5
        assert found[TIMESTAMP].value == 1e9
        assert found[STATE].labels[-1] == ("state", "serving")
        assert dict(found["llm_worker_capacity"].labels) == {
            "tag": "m",
            "model_name": "org/m",
            "worker": "host:8000",
        }

    @pytest.mark.parametrize("state", [State.BASELINE, State.UNREACHABLE])
    def test_some_states_publish_nothing(self, state: State) -> None:
        assert list(gauges(reading(state=state))) == []

    def test_no_label_is_empty(self) -> None:
        unnamed = reading(Identity("t", "", "w", (("gpu", "l4"),)))

        assert all(
            dict(g.labels).keys() >= {"tag", "worker", "gpu"}
            and "model_name" not in dict(g.labels)
            for g in gauges(unnamed)
        )
