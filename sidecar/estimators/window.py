"""Intervals gathered until they say something: one point of evidence on R(n)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import log

from sidecar.estimators.shapes import candidates, heights
from sidecar.interval import Interval

ENOUGH_COMPLETIONS = 20.0
ENOUGH_SECONDS = 30.0
ENOUGH_SERVICE_TIMES = 3.0
ENOUGH_TOKENS = 500.0
ENOUGH_TOKEN_SECONDS = 15.0
"""Tokens are done at once, requests take their time: that window need not span them."""

FEWEST_TOKENS = 50.0
FEWEST_COMPLETIONS = 4.0
"""Fewer measure nothing; with four log R is off by a half, and the band says so."""

LEAST_CONCURRENCY = 1e-6
"""Less is no request."""

MODEL_ERROR = 0.03
"""Scatter of log R around a smooth curve, beyond counting noise."""


class Unit(Enum):
    """What is counted, and so what α is the time of."""

    REQUEST = "request"
    TOKEN = "token"
    DECODED_TOKEN = "decoded token"


def unit_of(interval: Interval) -> Unit:
    """The best unit that the worker counts.

    Tokens are thousands where requests are tens. Best are those that the engine times
    itself: their summed time is the area under the requests that decode, and needs no
    gauge, which dips between the engine's steps.
    """
    if interval.decode_tokens is not None and interval.decode_seconds is not None:
        return Unit.DECODED_TOKEN
    return Unit.REQUEST if interval.generation_tokens is None else Unit.TOKEN


def units_of(interval: Interval, unit: Unit) -> float:
    """How many were done in the interval."""
    if unit is Unit.DECODED_TOKEN:
        return interval.decode_tokens or 0.0
    if unit is Unit.TOKEN:
        return interval.generation_tokens or 0.0
    return interval.completions


def concurrency(interval: Interval, unit: Unit) -> float:
    """Mean requests at work on such units over the interval."""
    if unit is Unit.DECODED_TOKEN:
        return (interval.decode_seconds or 0.0) / interval.duration
    return interval.mean_running


@dataclass(frozen=True)
class Point:
    """What one window says about log α under each candidate shape.

    Attributes:
        log_alphas: a value for each candidate, log seconds.
        variance: of each of them, beyond the shape's own error.
        concurrency: the highest that was met, requests.
    """

    log_alphas: tuple[float, ...]
    variance: float
    concurrency: float


@dataclass(frozen=True)
class Window:
    """Sums over the intervals since the last point.

    ``work`` is, for each candidate shape, the integral of n / h(n): a request among n
    gets on at the rate 1 / (α·h(n)), so this over α is how many were done.
    """

    seconds: float = 0.0
    completions: float = 0.0
    growth: float = 0.0
    area: float = 0.0
    polls: int = 0
    readings: float = 0.0
    highest: float = 0.0
    units: float = 0.0
    unit: Unit = Unit.REQUEST
    work: tuple[float, ...] = ()

    def after(self, interval: Interval) -> Window:
        """The window with one more interval."""
        unit = unit_of(interval)
        seconds = interval.duration
        n = concurrency(interval, unit)
        work = self.work or (0.0,) * len(candidates())
        if n > LEAST_CONCURRENCY:
            area = n * seconds
            pairs = zip(work, heights(n), strict=True)
            work = tuple([w + area / height for w, height in pairs])
        return Window(
            seconds=self.seconds + seconds,
            completions=self.completions + interval.completions,
            growth=self.growth + interval.running[1] - interval.running[0],
            area=self.area + n * seconds,
            polls=self.polls + 1,
            readings=self.readings + interval.running[1],
            highest=max(self.highest, n),
            units=self.units + units_of(interval, unit),
            unit=unit,
            work=work,
        )

    @property
    def is_full(self) -> bool:
        """Whether it spans enough completions, seconds and service times."""
        if self.unit is not Unit.REQUEST:
            return self.units >= ENOUGH_TOKENS and self.seconds >= ENOUGH_TOKEN_SECONDS
        if self.completions < ENOUGH_COMPLETIONS or self.seconds < ENOUGH_SECONDS:
            return False
        service_time = self.area / self.completions
        return self.seconds >= ENOUGH_SERVICE_TIMES * service_time

    def point(self) -> Point | None:
        """The evidence; None while it says too little.

        The work of k requests was done, one that is half done at either end counting
        half: α = work / k. Or that of so many tokens, where they are counted: then α is
        the time of a token, and neither the ends nor long requests blur it.
        """
        if not self.work or min(self.work) <= 0:
            return None
        if self.unit is Unit.DECODED_TOKEN:
            return self._point(self.units, FEWEST_TOKENS, 0.0)
        if not self.readings:
            return None
        if self.unit is Unit.TOKEN:
            return self._point(self.units, FEWEST_TOKENS, self._gauge_variance())
        done = self.completions + self.growth / 2
        if done <= 0:
            return None
        # How far the requests at the ends were is not known: uniform from 0 to 1.
        ends = (self.growth / done) ** 2 / 12
        # log(k + 1/2) is unbiased for the log of a Poisson mean, log k is not.
        noise = 1 / done + ends + self._gauge_variance()
        return self._point(done + 0.5, FEWEST_COMPLETIONS, noise)

    def _point(self, units: float, fewest: float, variance: float) -> Point | None:
        if units < fewest:
            return None
        level = log(units)
        return Point(
            log_alphas=tuple(log(work) - level for work in self.work),
            variance=variance + MODEL_ERROR**2,
            concurrency=max(1.0, self.highest),
        )

    def _gauge_variance(self) -> float:
        """Relative variance of the area under a gauge that is read now and then.

        n scatters by √n around its mean and forgets after a service time, so readings
        far apart are as many draws, and readings closer than that draw the curve.
        """
        apart = self.seconds / self.polls
        service_time = self.area / max(self.completions, 0.5)
        return apart / (apart + 6 * service_time) / self.readings
