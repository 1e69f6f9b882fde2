"""Intervals of a worker on a published curve, poll by poll."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import exp

from sidecar.interval import Interval
from tests.accuracy.curves import Curve

POLL = 5.0
MINUTES = 20


def poisson(mean: float, rng: random.Random) -> int:
    """A Poisson count; a normal one where that is as good."""
    if mean > 60:
        return max(0, round(rng.gauss(mean, mean**0.5)))
    left, count = rng.random(), 0
    threshold = exp(-mean)
    while left > threshold:
        left *= rng.random()
        count += 1
    return count


def wander(low: float, high: float, count: int, rng: random.Random) -> Iterator[float]:
    """A random walk between two reflecting walls, four minutes apart."""
    step = (high - low) / (240 / POLL) ** 0.5
    level = rng.uniform(low, high)
    for _ in range(count):
        level += rng.gauss(0, step)
        level = low + abs(level - low) if level < low else level
        level = max(low, high - abs(high - level)) if level > high else level
        yield level


def intervals(
    curve: Curve, share: float, seed: int, *, floor: float = 0.1, minutes: int = MINUTES
) -> Iterator[Interval]:
    """Polls with the concurrency between 10 % and 100 % of a share of the saturating.

    Completions are Poisson, the curve's throughput over the interval their mean.
    """
    rng = random.Random(f"{curve.name} {share} {seed}")
    top = share * curve.limit
    previous = 0.0
    for i, level in enumerate(
        wander(floor * top, top, int(minutes * 60 / POLL), rng), start=1
    ):
        mean = (curve.throughput(previous) + curve.throughput(level)) / 2
        done = poisson(mean * POLL, rng)
        yield Interval(
            end=POLL * i,
            duration=POLL,
            completions=done,
            departures=done,
            running=(round(previous), round(level)),
            waiting=(0.0, 0.0),
        )
        previous = level
