"""What was done while requests waited: there the throughput is the capacity."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from sidecar.estimators.posterior import LogNormal
from sidecar.estimators.work import Unit
from sidecar.interval import Interval

MEMORY = 300.0
"""Seconds of saturation that are remembered at full weight."""

_ERROR = 0.03
"""Of the logarithm: queues come and go within an interval."""


@dataclass(frozen=True)
class Saturation:
    """Work done in ``seconds`` of saturation; the oldest fades.

    Attributes:
        units: see ``Unit``.
    """

    units: float = 0.0
    completions: float = 0.0
    seconds: float = 0.0

    def after(self, interval: Interval, unit: Unit) -> Saturation:
        """With one more interval; the same unless requests waited in it."""
        if not interval.queued:
            return self
        keep = max(0.0, 1 - interval.duration / MEMORY)
        return Saturation(
            keep * self.units + unit.done(interval),
            keep * self.completions + interval.completions,
            keep * self.seconds + interval.duration,
        )

    def rate(self, unit: Unit) -> LogNormal | None:
        """Units/s, with counting noise; None where requests never waited."""
        if self.completions < 1:
            return None
        noise = 1 / self.completions if unit is Unit.REQUEST else 0.0
        level = log(max(self.units, 0.5) / self.seconds)
        return LogNormal(level, sqrt(noise + _ERROR**2))
