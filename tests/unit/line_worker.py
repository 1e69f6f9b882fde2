"""A worker on the line R(n) = α + β·n, poll by poll, with counting noise."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.estimators.base import Estimate, Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.knowledge import Knowledge
from sidecar.interval import Interval
from tests.accuracy.runs import last
from tests.unit.makers import interval

ALPHA, BETA = 2.0, 0.05
LIMIT = 64.0
TRUTH = LIMIT / (ALPHA + BETA * LIMIT)
TOKENS = 100.0


def service_time(n: float) -> float:
    return ALPHA + BETA * n


def polls(
    load: Iterable[float], seed: int = 1, *, tokens: float | None = None
) -> Iterator[Interval]:
    """Polls at these concurrencies.

    Args:
        tokens: per request, timed by the engine; None: only requests are counted.
    """
    rng = random.Random(seed)
    n = 0.0
    for i, target in enumerate(load, start=1):
        previous, n = n, max(0.0, round(rng.gauss(target, target**0.5)))
        rate = target / service_time(target)
        done = max(0, round(rng.gauss(5 * rate, (5 * rate) ** 0.5)))
        more: dict[str, Any] = {}
        if tokens is not None:
            more = {
                "generation_tokens": 5 * rate * tokens,
                "decode_tokens": 5 * rate * tokens,
                "decode_seconds": 5 * target,
            }
        yield interval(5.0 * i, done, running=(previous, n), **more)


def wandering(low: float, high: float, count: int, seed: int = 2) -> list[float]:
    rng, level, loads = random.Random(seed), (low + high) / 2, []
    for _ in range(count):
        level = min(high, max(low, level + rng.uniform(-1, 1) * (high - low) / 6))
        loads.append(level)
    return loads


def learning(
    estimator: CurveEstimator, found: Iterable[Interval]
) -> Learning[Knowledge]:
    return last(estimator, found)


def queue(start: float, count: int, rate: float = TRUTH) -> list[Interval]:
    """Polls with a full batch, requests that wait, and so many done a second."""
    return [
        interval(
            start + 5.0 * i,
            5 * rate,
            running=(LIMIT, LIMIT),
            waiting=(30, 30),
            generation_tokens=5 * rate * TOKENS,
            decode_tokens=5 * rate * TOKENS,
            decode_seconds=5 * LIMIT,
        )
        for i in range(1, count + 1)
    ]


def learn(estimator: CurveEstimator, found: Iterable[Interval]) -> Estimate | None:
    return learning(estimator, found).estimate
