"""Workers on published curves, poll by poll."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp

from sidecar.interval import Interval
from tests.accuracy.curves import Curve
from tests.accuracy.runs import Run, run

POLL = 5.0
MINUTES = 20
FLOOR = 0.1
"""Of the top: the load does not fall below."""


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


@dataclass(frozen=True)
class Wandering:
    """Concurrency between 10 % and 100 % of a share of the saturating one."""

    curve: Curve
    share: float
    seed: int

    def run(self) -> Run:
        """All methods on it."""
        return run(self.intervals(), self.curve.limit, self.curve.capacity)

    def intervals(self) -> Iterator[Interval]:
        """Poll by poll."""
        rng = random.Random(f"{self.curve.name} {self.share} {self.seed}")
        top, polls = self.share * self.curve.limit, int(MINUTES * 60 / POLL)
        return _polls(self.curve, wander(FLOOR * top, top, polls, rng), rng)


@dataclass(frozen=True)
class Steady:
    """A load that never changes, at a share of the capacity."""

    curve: Curve
    share: float
    hours: float
    seed: int

    def run(self) -> Run:
        """All methods on it."""
        return run(self.intervals(), self.curve.limit, self.curve.capacity)

    def intervals(self) -> Iterator[Interval]:
        """Poll by poll."""
        rng = random.Random(f"{self.curve.name} {self.share} {self.seed}")
        low, high = 0.0, self.curve.limit
        for _ in range(50):
            middle = (low + high) / 2
            if self.curve.throughput(middle) < self.share * self.curve.capacity:
                low = middle
            else:
                high = middle
        return _polls(self.curve, [high] * int(self.hours * 3600 / POLL), rng)


def _polls(
    curve: Curve, levels: Iterable[float], rng: random.Random
) -> Iterator[Interval]:
    """Completions are Poisson, the curve's throughput over the interval their mean."""
    previous = None
    for i, level in enumerate(levels, start=1):
        before = level if previous is None else previous
        mean = (curve.throughput(before) + curve.throughput(level)) / 2
        done = poisson(mean * POLL, rng)
        yield Interval(
            end=POLL * i,
            duration=POLL,
            completions=done,
            departures=done,
            running=(round(before), round(level)),
            waiting=(0.0, 0.0),
        )
        previous = level
