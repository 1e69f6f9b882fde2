"""What was done while requests waited: there the throughput is the capacity."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

from sidecar.estimators.posterior import LogNormal
from sidecar.estimators.work import Unit
from sidecar.interval import Interval

MEMORY = 300.0
"""Seconds of saturation after which an old one weighs 1/e."""

_ERROR = 0.03
"""Of the logarithm: queues come and go within an interval."""

_FILLING = 0.5
"""Growth over completions: above it the batch fills."""

_BURST, _BURST_SECONDS = 0.3, 5.0
"""Error of the logarithm after so short a queue: prompts or answers come in bursts."""

_AGEING = 0.1
"""Error of the logarithm for each ``MEMORY`` that no request has waited since."""


class Saturation(NamedTuple):
    """Work done in ``seconds`` of saturation; the oldest fades.

    Attributes:
        units: see ``Unit``.
        age: seconds since requests last waited.
    """

    units: float = 0.0
    completions: float = 0.0
    seconds: float = 0.0
    age: float = 0.0

    def after(self, interval: Interval, unit: Unit) -> Saturation:
        """With one more interval; older unless requests waited in it.

        While the batch still fills, what is done is less than what it could do.
        """
        if not interval.queued:
            return self.aged(interval.duration)
        if abs(interval.growth) > _FILLING * interval.completions:
            return self
        keep = exp(-interval.duration / MEMORY)
        return Saturation(
            keep * self.units + unit.done(interval),
            keep * self.completions + interval.completions,
            keep * self.seconds + interval.duration,
        )

    def aged(self, seconds: float) -> Saturation:
        """So much later; the same where requests never waited."""
        return self._replace(age=self.age + seconds) if self.seconds else self

    def rate(self, unit: Unit) -> LogNormal | None:
        """Units/s, with counting noise; None where requests never waited."""
        if self.completions < 1:
            return None
        noise = 1 / self.completions if unit is Unit.REQUEST else 0.0
        noise += _BURST**2 * _BURST_SECONDS / self.seconds
        level = log(max(self.units, 0.5) / self.seconds)
        ageing = _AGEING * self.age / MEMORY
        return LogNormal(level, sqrt(noise + _ERROR**2 + ageing**2))

    def requests(self) -> LogNormal | None:
        """Requests/s, where nothing else is known; None where requests never waited."""
        if self.completions < 1:
            return None
        spread = sqrt(1 / self.completions + _BURST**2)
        return LogNormal(log(self.completions / self.seconds), spread)
