"""What was done and among how many, summed over intervals."""

from __future__ import annotations

from enum import Enum
from math import exp
from typing import NamedTuple

from sidecar.interval import Interval


class Unit(Enum):
    """What is counted, and so what α is the time of."""

    REQUEST = "request"
    TOKEN = "token"
    DECODED_TOKEN = "decoded token"

    @property
    def rank(self) -> int:
        """The higher the better."""
        return list(Unit).index(self)

    @classmethod
    def best(cls, interval: Interval) -> Unit:
        """The best unit that the worker counts.

        Tokens are thousands where requests are tens. Best are those that the engine
        times itself: their summed time is the area under the requests that decode, and
        needs no gauge, which dips between the engine's steps.
        """
        if interval.decode_tokens is not None and interval.decode_seconds is not None:
            return cls.DECODED_TOKEN
        return cls.REQUEST if interval.generation_tokens is None else cls.TOKEN

    def done(self, interval: Interval) -> float:
        """How many were done in the interval."""
        if self is Unit.DECODED_TOKEN:
            return interval.decode_tokens or 0.0
        if self is Unit.TOKEN:
            return interval.generation_tokens or 0.0
        return interval.completions

    def concurrency(self, interval: Interval) -> float:
        """Mean requests at work on such units over the interval."""
        if self is Unit.DECODED_TOKEN:
            return (interval.decode_seconds or 0.0) / interval.duration
        return interval.mean_running


def computed_prompts(interval: Interval) -> float | None:
    """Prompt tokens that were really computed: a cache saved the others."""
    if interval.prompt_tokens is None:
        return None
    return max(0.0, interval.prompt_tokens - (interval.cached_tokens or 0.0))


_AT_ONCE = 1e-3
"""Of a service time: polls so close hide nothing."""


class Work(NamedTuple):
    """Sums over intervals.

    Attributes:
        area: ∫n dt over the requests at work, request seconds.
        seen: ∫n² dt: over ``area`` it is the concurrency that a request meets.
        units: done, see ``Unit``. completions: requests.
        prompts: prompt tokens computed.
        polls, readings: how often the gauge was read, and what it showed in all.
        growth: of the requests running.
    """

    seconds: float = 0.0
    area: float = 0.0
    seen: float = 0.0
    units: float = 0.0
    completions: float = 0.0
    prompts: float = 0.0
    polls: float = 0.0
    readings: float = 0.0
    growth: float = 0.0

    def after(self, interval: Interval, unit: Unit) -> Work:
        """With one more interval."""
        seconds, n = interval.duration, unit.concurrency(interval)
        if unit is Unit.DECODED_TOKEN:
            square = n * n
        else:
            square = (interval.running[0] ** 2 + interval.running[1] ** 2) / 2
        return Work(
            self.seconds + seconds,
            self.area + n * seconds,
            self.seen + square * seconds,
            self.units + unit.done(interval),
            self.completions + interval.completions,
            self.prompts + (computed_prompts(interval) or 0.0),
            self.polls + 1,
            self.readings + interval.running[1],
            self.growth + interval.growth,
        )

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(
            self.seconds + other.seconds,
            self.area + other.area,
            self.seen + other.seen,
            self.units + other.units,
            self.completions + other.completions,
            self.prompts + other.prompts,
            self.polls + other.polls,
            self.readings + other.readings,
            self.growth + other.growth,
        )

    def faded(self, keep: float) -> Work:
        """The same, counting for less."""
        return Work(
            keep * self.seconds,
            keep * self.area,
            keep * self.seen,
            keep * self.units,
            keep * self.completions,
            keep * self.prompts,
            keep * self.polls,
            keep * self.readings,
            keep * self.growth,
        )

    def is_filling(self, unit: Unit) -> bool:
        """Whether the batch filled or emptied meanwhile: those that ran and those that
        were done are not the same then, and n is no number but many."""
        most = self.completions if unit is Unit.REQUEST else self.mean
        return abs(self.growth) > most

    @property
    def mean(self) -> float:
        """Requests at work, mean over the time."""
        return self.area / self.seconds

    @property
    def service_time(self) -> float:
        """Seconds at work per request, by Little's law: n·T / k."""
        return self.area / max(self.completions, 0.5)

    @property
    def poll_seconds(self) -> float:
        """From one poll to the next."""
        return self.seconds / self.polls

    def concurrency(self, unit: Unit) -> float:
        """The concurrency that a request meets, Σn²/Σn: at least itself."""
        return max(1.0, self.seen / self.area + self.hidden(unit))

    def hidden(self, unit: Unit) -> float:
        """Requests that a request meets besides those that means over intervals show.

        With arrivals at random, the mean over a time t has of the variance of n only
        the part 2/x·(1 - (1 - e^-x)/x), x = t over the service time (Cox and Miller,
        1965). A gauge that is read at points hides nothing.
        """
        x = self.poll_seconds / self.service_time
        if unit is not Unit.DECODED_TOKEN or x < _AT_ONCE:
            return 0.0
        return 1.0 - 2 / x * (1 - (1 - exp(-x)) / x)

    @property
    def gauge_variance(self) -> float:
        """Relative variance of the area under a gauge that is read now and then.

        n scatters by √n around its mean and forgets after a service time, so readings
        far apart are as many draws, and readings closer than that draw the curve.
        """
        apart = self.poll_seconds
        return apart / (apart + 6 * self.service_time) / max(1.0, self.readings)
