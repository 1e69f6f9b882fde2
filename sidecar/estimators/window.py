"""Intervals gathered until they say something: one point of the curve R(n)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from sidecar.interval import Interval

ENOUGH_COMPLETIONS = 20.0
ENOUGH_SECONDS = 30.0
ENOUGH_SERVICE_TIMES = 3.0
FEWEST_COMPLETIONS = 4.0
"""Fewer measure nothing; with four log R is off by a half, and the band says so."""

MODEL_ERROR = 0.05
"""Scatter of log R around a line on the published curves, beyond counting noise."""


@dataclass(frozen=True)
class Point:
    """One measured point of the curve.

    Attributes:
        concurrency: the concurrency that requests met, requests.
        log_time: log of the mean time in service, log seconds.
        variance: of ``log_time``.
        completions: requests behind it.
    """

    concurrency: float
    log_time: float
    variance: float
    completions: float


@dataclass(frozen=True)
class Window:
    """Sums over the intervals since the last point."""

    seconds: float = 0.0
    completions: float = 0.0
    growth: float = 0.0
    area: float = 0.0
    busy_readings: int = 0
    readings: float = 0.0
    readings_squared: float = 0.0
    service_seconds: float = 0.0
    service_count: float = 0.0

    def after(self, interval: Interval) -> Window:
        """The window with one more interval."""
        running = interval.running[1]
        return Window(
            seconds=self.seconds + interval.duration,
            completions=self.completions + interval.completions,
            growth=self.growth + interval.running[1] - interval.running[0],
            area=self.area + interval.mean_running * interval.duration,
            busy_readings=self.busy_readings + (running > 0),
            readings=self.readings + running,
            readings_squared=self.readings_squared + running**2,
            service_seconds=self.service_seconds + (interval.service_seconds or 0.0),
            service_count=self.service_count + (interval.service_count or 0.0),
        )

    @property
    def is_full(self) -> bool:
        """Whether it spans enough completions, seconds and service times."""
        if self.completions < ENOUGH_COMPLETIONS or self.seconds < ENOUGH_SECONDS:
            return False
        service_time = self.area / self.completions
        return self.seconds >= ENOUGH_SERVICE_TIMES * service_time

    def point(self) -> Point | None:
        """The point it measures; None while it says too little.

        Little's law, R = area / completions, where a request that is half done at
        either end counts half; or the engine's own sum of service times where it
        exports one, which needs no gauge. Requests meet Σn²/Σn others and themselves;
        the plain mean of n counts time when nobody was there.
        """
        if self.completions < FEWEST_COMPLETIONS or self.busy_readings == 0:
            return None
        concurrency = max(1.0, self.readings_squared / self.readings)
        variance = 1 / self.completions + MODEL_ERROR**2
        if self.service_count > 0 and self.service_seconds > 0:
            time = self.service_seconds / self.service_count
        else:
            work = self.completions + self.growth / 2
            if work < FEWEST_COMPLETIONS or self.area <= 0:
                return None
            time = self.area / work
            # Readings of n scatter by √n around what they stand for.
            variance += 1 / self.readings
        return Point(concurrency, log(time), variance, self.completions)
