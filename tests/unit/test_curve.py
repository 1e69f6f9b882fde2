from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
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
from sidecar.estimators.mix import Lengths
from sidecar.estimators.posterior import Line, LogNormal, Posterior, throughput
from sidecar.estimators.shapes import candidates, heights, prior
from sidecar.estimators.window import Point, Window
from sidecar.interval import Interval, between
from tests.accuracy import curves
from tests.accuracy.prior import compute
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


def point(n: float, time: float, variance: float) -> Point:
    """Exact evidence: so long takes a request among n."""
    alphas = tuple(log(time / height) for height in heights(n))
    return Point(alphas, variance, n)


def mean_slope(lines: Iterable[Line]) -> float:
    return exp(sum(line.probability * log(line.shape.slope) for line in lines))


def mean_slope_of_prior() -> float:
    return prior().slope + prior().slope_per_prompt * prior().prompt_ratio


def nearest(slope: float) -> int:
    """The index of the line whose slope is nearest."""
    straight = [
        (abs(log(shape.slope / slope)), i)
        for i, shape in enumerate(candidates())
        if shape.kind.power == 1 and not shape.kind.bend
    ]
    return min(straight)[1]


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
        found = Posterior().after(point(8, service_time(8), 0.05)).lines()

        assert mean_slope(found) == pytest.approx(mean_slope_of_prior(), rel=0.1)

    def test_points_far_apart_find_the_slope(self) -> None:
        posterior = Posterior()
        for n in (2.0, 64.0) * 20:
            posterior = posterior.after(point(n, service_time(n), 0.003))

        lines = posterior.lines()

        assert sum(line.probability for line in lines) == pytest.approx(1)
        assert throughput(lines, LIMIT).median == pytest.approx(TRUTH, rel=0.03)

    def test_long_prompts_make_a_steep_line(self) -> None:
        found = Posterior().after(point(8, service_time(8), 0.05))

        assert mean_slope(found.lines(60.0)) > 3 * mean_slope(found.lines(1.0))

    def test_a_bend_is_believed_when_it_is_shown(self) -> None:
        """Experts wake one after the other: a line through low loads is too steep."""

        def bent(n: float) -> float:
            return float(1 + 0.01 * n + 2 * (1 - (1 - 1 / 16) ** n))

        posterior, line = Posterior(), Posterior()
        for n in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0) * 10:
            posterior = posterior.after(point(n, bent(n), 0.003))
            line = line.after(point(n, service_time(n), 0.003))

        found = posterior.lines()
        assert sum(x.probability for x in found if x.shape.kind.bend) > 0.9
        assert sum(x.probability for x in line.lines() if x.shape.kind.bend) < 0.1
        assert throughput(found, 128).median == pytest.approx(128 / bent(128), rel=0.1)

    def test_the_file_is_what_the_curves_say(self) -> None:
        """Write it anew with `make prior`."""
        assert vars(prior()) == vars(compute(curves.load()))

    def test_precision_weighs(self) -> None:
        both = LogNormal(log(10), 0.1).combined(LogNormal(log(20), 0.2))

        assert both.median == pytest.approx(10 * 2 ** (1 / 5))
        assert both.sd < 0.1


class TestChange:
    """Requests that become four times as long, in one step."""

    def intervals(self, tokens: bool) -> Iterable[Interval]:
        load = wandering(4, LIMIT / 3, 480)
        for i, each in enumerate(polls(load, measured=False)):
            length = 100.0 if i < 240 else 400.0
            share = 1.0 if i < 240 else 0.25
            done = each.completions * share
            more: dict[str, Any] = {}
            if tokens:
                more["generation_tokens"] = done * length
            yield interval(each.end, done, running=each.running, **more)

    @pytest.mark.parametrize("tokens", [True, False])
    def test_the_capacity_follows(self, tokens: bool) -> None:
        learning: Learning[CurveState] = Learning.begin(CurveEstimator(LIMIT))
        ratios = []
        for i, each in enumerate(self.intervals(tokens)):
            learning = learning.after(each)
            truth = TRUTH if i < 240 else TRUTH / 4
            estimate = learning.estimate
            ratios.append(estimate.capacity / truth if estimate else 1.0)

        before, two_minutes_on, ten_minutes_on = 240, 240 + 24, 240 + 120
        assert all(0.7 < ratio < 1.35 for ratio in ratios[120:before])
        assert all(0.5 < ratio < 2.0 for ratio in ratios[two_minutes_on:])
        assert all(0.75 < ratio < 1.3 for ratio in ratios[ten_minutes_on:])


class TestUnits:
    def test_tokens_that_the_engine_times_need_no_gauge(self) -> None:
        """With a gauge that always reads 1, the area is what the engine says."""
        load = wandering(2, LIMIT / 3, 240)
        found = [
            interval(
                5.0 * i,
                5 * n / service_time(n),
                running=(1, 1),
                decode_seconds=5 * n,
                decode_tokens=100 * 5 * n / service_time(n),
            )
            for i, n in enumerate(load, start=1)
        ]

        estimate = learn(CurveEstimator(LIMIT), found)

        assert estimate is not None
        assert estimate.capacity == pytest.approx(TRUTH, rel=0.1)
        assert "100 tokens a request" in estimate.method

    def test_a_page_that_begins_to_count_tokens_keeps_the_shape(self) -> None:
        load = wandering(2, LIMIT / 3, 240)
        found = list(polls(load, measured=False))
        learning: Learning[CurveState] = Learning.begin(CurveEstimator(LIMIT))
        for each in found[:120]:
            learning = learning.after(each)
        before = learning.estimate
        for each in found[120:132]:
            tokens = 100 * each.completions
            learning = learning.after(replace(each, generation_tokens=tokens))

        assert before is not None
        assert learning.estimate is not None
        assert learning.estimate.capacity == pytest.approx(before.capacity, rel=0.3)


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

    def test_work_is_done_at_the_concurrency_of_each_moment(self) -> None:
        """A quarter of an hour at 2 and one at 60 is not half an hour at 31."""
        window = Window()
        for i, n in enumerate([2.0] * 180 + [60.0] * 180, start=1):
            done = 5 * n / service_time(n)
            window = window.after(interval(5.0 * i, done, running=(n, n)))

        found = window.point()

        assert found is not None
        index = nearest(BETA / ALPHA)
        assert exp(found.log_alphas[index]) == pytest.approx(ALPHA, rel=0.08)

    def test_work_half_done_at_the_ends_counts_half(self) -> None:
        grown = Window().after(interval(60, 30, running=(0, 20), duration=60.0))
        level = Window().after(interval(60, 40, running=(10, 10), duration=60.0))

        one, other = grown.point(), level.point()

        assert one is not None
        assert other is not None
        assert one.log_alphas == pytest.approx(other.log_alphas)


class TestMix:
    def test_tokens_per_request(self) -> None:
        lengths = Lengths()
        for _ in range(50):
            lengths = lengths.after(1000.0, 10.0)

        assert lengths.mean == pytest.approx(100)

    def test_another_mix_is_noticed_within_two_blocks(self) -> None:
        lengths = Lengths()
        for _ in range(100):
            lengths = lengths.after(1000.0, 10.0)
        for _ in range(4):
            lengths = lengths.after(4000.0, 10.0)

        assert lengths.mean == pytest.approx(400, rel=0.05)

    def test_chance_is_no_other_mix(self) -> None:
        rng = random.Random(5)
        lengths = Lengths()
        for _ in range(400):
            tokens = sum(rng.lognormvariate(4.4, 0.6) for _ in range(5))
            lengths = lengths.after(tokens, 5.0)

        assert lengths.mean == pytest.approx(exp(4.4 + 0.18), rel=0.1)


class TestLimits:
    def test_the_setting_or_command_line(self) -> None:
        assert lowest(Seen(), 40).requests == 40

    def test_where_requests_wait(self) -> None:
        seen = Seen().after(interval(5, 9, running=(14, 16), waiting=(3, 2)))

        assert lowest(seen, None).requests == 16

    def test_the_kv_cache(self) -> None:
        """Ten requests fill a fifth of it, so fifty fill it."""
        seen = Seen()
        for i in range(1, 9):
            seen = seen.after(interval(5.0 * i, 9, running=(10, 10), kv_usage=0.2))

        limit = lowest(seen, 256)

        assert limit.requests == pytest.approx(50)
        assert limit.origin == "KV cache"

    def test_a_guess_is_called_a_guess(self) -> None:
        limit = lowest(Seen(), None)

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
