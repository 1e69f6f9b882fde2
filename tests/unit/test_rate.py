"""Parity with the signal that Apache Beam's vLLM handler publishes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import environment, estimators
from sidecar.estimators.base import Learning
from sidecar.estimators.rate import RateEstimator
from sidecar.pipeline import Pipeline
from sidecar.reading import Values
from tests.unit.makers import interval, sample

WINDOW = 60.0
AGGREGATIONS = ["lifetime_max", "max", "mean", "last", "p0", "p50", "p90", "p100"]


def seed(
    polls: list[tuple[float, float]], aggregation: str, multiplier: float
) -> list[float]:
    """The seed's arithmetic, step by step: floor and multiply, then aggregate."""
    reported: list[tuple[float, float]] = []
    published = []
    for (before, done), (now, total) in pairwise(polls):
        rate = (total - done) / (now - before)
        reported.append((now, max(1.0, rate * multiplier)))
        recent = sorted(v for at, v in reported if at >= now - WINDOW)
        rank = (
            math.ceil(int(aggregation[1:]) / 100 * len(recent))
            if (aggregation[0] == "p")
            else 1
        )
        published.append(
            {
                "lifetime_max": max(v for _, v in reported),
                "max": recent[-1],
                "mean": sum(recent) / len(recent),
                "last": reported[-1][1],
            }.get(aggregation, recent[max(rank, 1) - 1])
        )
    return published


class TestParity:
    @pytest.mark.parametrize("aggregation", AGGREGATIONS)
    @given(
        steps=st.lists(
            st.tuples(st.floats(0.5, 30), st.integers(0, 400)), min_size=2, max_size=40
        ),
        multiplier=st.floats(0.01, 100),
    )
    def test_the_published_signal(
        self, aggregation: str, steps: list[tuple[float, int]], multiplier: float
    ) -> None:
        polls, at, total = [], 0.0, 0.0
        for duration, completions in steps:
            at, total = at + duration, total + completions
            polls.append((at, total))
        settings = environment.load(
            {},
            estimator="rate",
            rate_aggregation=aggregation,
            rate_window=WINDOW,
            multiplier=multiplier,
        ).settings
        line = Pipeline(
            estimators.build(settings, None),
            multiplier=settings.multiplier,
            minimum=settings.minimum,
        )

        values = [line.advance(sample(at, total)) for at, total in polls]

        found = [each.published for each in values[1:]]
        assert found == pytest.approx(seed(polls, aggregation, multiplier))

    def test_noise_latches_for_ever(self) -> None:
        """The fault that `curve` exists to mend, kept on purpose."""
        rate = Learning.begin(RateEstimator())
        for i, completions in enumerate([5, 25, *[5] * 500]):
            rate = rate.after(interval(5.0 * i, completions))

        assert rate.estimate is not None
        assert rate.estimate.capacity == 5.0

    def test_a_baseline_publishes_nothing(self) -> None:
        line = Pipeline(RateEstimator(), minimum=1.0)

        assert line.advance(sample(0, 100)).published is None

    def test_the_floor_is_one_request_a_second(self) -> None:
        line = Pipeline(RateEstimator(floor=1.0), minimum=1.0)
        line.advance(sample(0, 100))

        found: Values = line.advance(sample(5, 100))

        assert found.published == 1.0

    def test_memory_is_bounded_by_the_window(self) -> None:
        estimator = RateEstimator("p90", WINDOW)
        state = estimator.start()
        for i in range(1000):
            state, _ = estimator.step(state, interval(5.0 * i, 3))

        assert len(state.rates) == WINDOW / 5 + 1
