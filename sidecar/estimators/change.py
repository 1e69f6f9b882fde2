"""Noticing that requests have become others.

Longer or shorter requests move the level α at once and leave the shape. One window that
is off proves nothing, many that are off to one side do: cumulative sums of surprises,
one for each side (Page, 1954).
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

from sidecar.estimators.evidence import Evidence
from sidecar.estimators.posterior import Posterior
from sidecar.estimators.work import Work

ALLOWED = 0.5
"""Standard deviations that each window may be off: half the shift looked for."""

CERTAIN = 6.0
"""A sum that chance reaches once in a thousand windows or more."""

MOST = 4.0
"""One window counts for no more, however far it is off."""

REMEMBERED = 8
"""Windows since a sum left zero that are kept: they are of the new requests."""

_DRIFT = 0.1
"""Standard deviation of log R from one window to the next that means nothing."""


def surprise(found: Evidence, known: Posterior) -> float:
    """How many standard deviations R is above what was foretold."""
    expected = known.throughput(found.concurrency)
    off = found.log_time - (log(found.concurrency) - expected.mean)
    return off / sqrt(found.variance + expected.sd**2 + _DRIFT**2)


class Change(NamedTuple):
    """The sums, and the windows since they left zero."""

    above: float = 0.0
    below: float = 0.0
    recent: tuple[Work, ...] = ()

    def after(self, off: float, window: Work) -> Change:
        """With one more window, which was off by so many standard deviations."""
        off = max(-MOST, min(MOST, off))
        above = max(0.0, self.above + off - ALLOWED)
        below = max(0.0, self.below - off - ALLOWED)
        if not above and not below:
            return Change()
        return Change(above, below, (*self.recent, window)[-REMEMBERED:])

    @property
    def is_certain(self) -> bool:
        """Whether what was learned before is of other requests."""
        return max(self.above, self.below) >= CERTAIN
