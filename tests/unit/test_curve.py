from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar import trace
from sidecar.estimators.base import Estimate, Learning
from sidecar.estimators.curve import CurveEstimator, CurveState
from sidecar.estimators.limits import DEFAULT_SEQUENCES, Seen, lowest
from sidecar.estimators.posterior import GRID, LogNormal, Posterior, throughput
from sidecar.estimators.window import Point, Window
from sidecar.interval import Interval, between
from tests.unit.makers import FIXTURES, interval

ALPHA, BETA = 2.0, 0.05
LIMIT = 64.0
TRUTH = LIMIT / (ALPHA + BETA * LIMIT)


def service_time(n: float) -> float:
    return ALPHA + BETA * n


def polls(
    load: Iterable[float], seed: int = 1, *, measured: bool = True
) -> Iterable[Interval]:
    """Polls of a worker on the line, at these concurrencies, with counting noise."""
    rng = random.Random(seed)
    n = 0.0
    for i, target in enumerate(load, start=1):
        previous, n = n, max(0.0, round(rng.gauss(target, target**0.5)))
        expected = 5 * target / service_time(target)
        done = max(0, round(rng.gauss(expected, expected**0.5)))
        more: dict[str, Any] = {
            "service_seconds": done * service_time(target),
            "service_count": done,
        }
        yield interval(
            5.0 * i, done, running=(previous, n), **(more if measured else {})
        )


def learn(estimator: CurveEstimator, found: Iterable[Interval]) -> Estimate | None:
    learning: Learning[CurveState] = Learning.begin(estimator)
    for each in found:
        learning = learning.after(each)
    return learning.estimate


def wandering(low: float, high: float, count: int, seed: int = 2) -> list[float]:
    rng, level, loads = random.Random(seed), (low + high) / 2, []
    for _ in range(count):
        level = min(high, max(low, level + rng.uniform(-1, 1) * (high - low) / 6))
        loads.append(level)
    return loads


class TestCapacity:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("measured", [True, False])
    def test_it_is_seen_from_a_quarter_of_the_load(
        self, seed: int, measured: bool
    ) -> None:
        load = wandering(1, LIMIT / 4, 240, seed)

        estimate = learn(CurveEstimator(LIMIT), polls(load, seed, measured=measured))

        assert estimate is not None
        assert estimate.capacity == pytest.approx(TRUTH, rel=0.25)

    def test_the_highest_rate_seen_is_far_below(self) -> None:
        load = wandering(1, LIMIT / 4, 240)

        peak = max(each.completions / each.duration for each in polls(load))

        assert peak < 0.75 * TRUTH

    def test_the_band_holds_the_truth_and_narrows(self) -> None:
        load = wandering(1, LIMIT / 2, 480)
        early = learn(CurveEstimator(LIMIT), polls(load[:12]))
        late = learn(CurveEstimator(LIMIT), polls(load))

        assert early is not None
        assert late is not None
        for estimate in (early, late):
            assert estimate.lower is not None
            assert estimate.upper is not None
            assert estimate.lower < TRUTH < estimate.upper
        assert late.upper / late.lower < 0.8 * early.upper / early.lower  # type: ignore[operator]

    def test_the_rate_while_requests_wait_is_the_capacity(self) -> None:
        full = [
            interval(5.0 * i, 60, running=(LIMIT, LIMIT), waiting=(9, 9))
            for i in range(1, 13)
        ]

        estimate = learn(CurveEstimator(), full)

        assert estimate is not None
        assert estimate.capacity == pytest.approx(12.0, rel=0.05)
        assert estimate.concurrency_limit == LIMIT
        assert "while requests waited" in estimate.method


class TestHolding:
    def test_an_idle_worker_says_nothing(self) -> None:
        estimator = CurveEstimator(LIMIT)
        learning = Learning.begin(estimator)
        for each in polls(wandering(1, 20, 60)):
            learning = learning.after(each)
        before = learning

        for i in range(1000):
            learning = learning.after(interval(300 + 5.0 * i, 0))

        assert learning.state == before.state
        assert learning.estimate == before.estimate

    def test_nothing_is_said_before_anything_was_served(self) -> None:
        assert learn(CurveEstimator(), [interval(5, 0, running=(0, 3))]) is None

    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 500),
                st.integers(0, 300),
                st.integers(0, 300),
                st.floats(0, 1),
                st.floats(0.01, 1e5),
            ),
            min_size=1,
            max_size=60,
        )
    )
    def test_any_page_gives_a_finite_positive_estimate_or_none(
        self, rows: list[tuple[int, int, int, float, float]]
    ) -> None:
        found, running, waiting = [], 0, 0
        for i, (done, now, queue, usage, seconds) in enumerate(rows, start=1):
            found.append(
                interval(
                    5.0 * i,
                    done,
                    running=(running, now),
                    waiting=(waiting, queue),
                    kv_usage=usage,
                    service_seconds=seconds,
                    service_count=float(done),
                )
            )
            running, waiting = now, queue

        estimate = learn(CurveEstimator(latency_objective=3.0), found)

        if estimate is not None:
            assert estimate.lower is not None
            assert estimate.upper is not None
            assert 0 < estimate.lower <= estimate.capacity <= estimate.upper < 1e12


class TestPrior:
    def test_one_point_leaves_the_slope_to_the_prior(self) -> None:
        lines = Posterior().after(Point(8, log(2.4), 0.05, 20)).lines()

        mean = sum(line.probability * log(line.slope) for line in lines)
        middle = GRID[len(GRID) // 2]
        assert mean == pytest.approx(log(middle), abs=0.05)

    def test_points_far_apart_find_the_slope(self) -> None:
        posterior = Posterior()
        for n in (2.0, 64.0) * 20:
            posterior = posterior.after(Point(n, log(service_time(n)), 0.003, 400))

        lines = posterior.lines()

        slope = exp(sum(line.probability * log(line.slope) for line in lines))
        assert slope == pytest.approx(BETA / ALPHA, rel=0.15)
        assert sum(line.probability for line in lines) == pytest.approx(1)
        assert throughput(lines, LIMIT).median == pytest.approx(TRUTH, rel=0.03)

    def test_precision_weighs(self) -> None:
        both = LogNormal(log(10), 0.1).combined(LogNormal(log(20), 0.2))

        assert both.median == pytest.approx(10 * 2 ** (1 / 5))
        assert both.sd < 0.1


class TestWindow:
    def test_it_waits_for_completions_seconds_and_service_times(self) -> None:
        window = Window()
        for i in range(1, 6):
            window = window.after(interval(5.0 * i, 10, running=(4, 4)))
            assert not window.is_full  # 25 s

        assert window.after(interval(30.0, 10, running=(4, 4))).is_full

    def test_long_requests_need_a_longer_window(self) -> None:
        """25 done in 50 s with 64 running is a service time of 128 s."""
        window = Window()
        for i in range(1, 11):
            window = window.after(interval(5.0 * i, 2.5, running=(64, 64)))

        assert not window.is_full

    def test_requests_meet_more_than_the_mean(self) -> None:
        """Half the time 10 run, half the time none: those that ran met 10."""
        window = Window()
        for i in range(1, 13):
            ends = (10.0, 0.0) if i % 2 else (0.0, 10.0)
            window = window.after(interval(5.0 * i, 5, running=ends))

        point = window.point()

        assert point is not None
        assert point.concurrency == 10

    def test_work_half_done_at_the_ends_counts_half(self) -> None:
        window = Window().after(interval(60, 30, running=(0, 20), duration=60.0))

        point = window.point()

        assert point is not None
        assert exp(point.log_time) == pytest.approx(10 * 60 / (30 + 10))


class TestLimits:
    def test_the_setting_or_command_line(self) -> None:
        assert lowest([], 40).requests == 40

    def test_where_requests_wait(self) -> None:
        seen = Seen().after(interval(5, 9, running=(14, 16), waiting=(3, 2)))

        assert lowest(seen.limits(), None).requests == 16

    def test_the_kv_cache(self) -> None:
        """Ten requests fill a fifth of it, so fifty fill it."""
        seen = Seen()
        for i in range(1, 9):
            seen = seen.after(interval(5.0 * i, 9, running=(10, 10), kv_usage=0.2))

        limit = lowest(seen.limits(), 256)

        assert limit.requests == pytest.approx(50)
        assert limit.origin == "KV cache"

    def test_a_guess_is_called_a_guess(self) -> None:
        limit = lowest([], None)

        assert limit.requests == DEFAULT_SEQUENCES
        assert "default" in limit.origin

    def test_the_latency_objective_caps_it(self) -> None:
        load = wandering(1, LIMIT / 2, 480)
        objective = service_time(20)

        estimate = learn(CurveEstimator(LIMIT, objective), polls(load))

        assert estimate is not None
        assert estimate.concurrency_limit == pytest.approx(20, rel=0.3)
        assert estimate.capacity == pytest.approx(20 / objective, rel=0.2)


class TestRealWorker:
    """A recording of a real vLLM that could sustain 16.2 requests/s at 16 running."""

    @pytest.mark.parametrize("step", [1, 5])
    def test_the_sine(self, step: int) -> None:
        path = FIXTURES / "traces" / "vllm-0.32.0-cpu-sine.csv"
        after = dict(replayed(path, step))

        assert all(0.8 < after[t] / 16.1 < 1.35 for t in after if 60 < t < 85)
        assert all(0.95 < after[t] / 16.1 < 1.05 for t in after if t > 150)


def replayed(path: Path, step: int) -> Iterable[tuple[float, float]]:
    learning = Learning.begin(CurveEstimator(16))
    samples = [row.sample for row in trace.read(path) if row.sample][::step]
    for earlier, later in pairwise(samples):
        found = between(earlier, later)
        assert found is not None
        learning = learning.after(found)
        if learning.estimate:
            yield later.at, learning.estimate.capacity
