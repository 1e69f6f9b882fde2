"""Evidence by level of load: a bounded table, whatever the load was and for how long.

Noise in a reading of n looks like load, and what it does to R = n·T/k looks like slope:
a regression on single readings finds slope in a load that never moved. So work is
added up by level, and by a level that the noise has no part in; within a level the
noise then averages out (Wald, 1940; Durbin, 1954).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, floor, log, sqrt
from typing import NamedTuple

from sidecar.estimators.work import Unit, Work

STEP = 0.15
"""Width of a level: of log load."""

MEMORY = 240.0
"""Windows after which an old one weighs 1/e: an hour or more."""

KEEP = exp(-1 / MEMORY)

FORGOTTEN = 1e-3
"""Of a window; what has faded to less is dropped."""

LEAST = 1e-6
"""Load that no worker is below; it keeps the logarithm finite."""


class Waiting(NamedTuple):
    """A window that waits to be filed between its neighbours; and n of the earlier."""

    work: Work
    earlier: float | None

    def level(self, later: float | None) -> float:
        """The load that the neighbours show; its own where it has none."""
        if self.earlier is not None and later is not None:
            return sqrt(self.earlier * later)
        for known in (self.earlier, later):
            if known is not None:
                return known
        return self.work.mean


class Levels(NamedTuple):
    """Work by level; each level's is a sum in which the old fades.

    Where tokens are counted the level is the rate of tokens: exact, and the noise of
    the gauge has no part in it. Requests are few, so their rate is noise itself; there
    a window's level is what its two neighbours show.

    Attributes:
        highest: concurrency met lately, requests.
    """

    works: Mapping[int, Work] = {}
    highest: float = 0.0
    waiting: Waiting | None = None

    def after(self, window: Work, unit: Unit) -> Levels:
        """With one more window."""
        highest = max(KEEP * self.highest, window.concurrency(unit))
        if unit is not Unit.REQUEST:
            works = self._with(window, window.units / window.seconds)
            return Levels(works, highest)
        if self.waiting is None:
            return Levels(self.works, highest, Waiting(window, None))
        works = self._with(self.waiting.work, self.waiting.level(window.mean))
        return Levels(works, highest, Waiting(window, self.waiting.work.mean))

    def all(self) -> Iterator[Work]:
        """Every level, with the window that waits as far as its level is known."""
        return iter(self._filed.values())

    def faded(self, keep: float) -> Levels:
        """The same, counting for less."""
        works = {level: work.faded(keep) for level, work in self._filed.items()}
        return Levels(works, self.highest)

    @property
    def _filed(self) -> Mapping[int, Work]:
        if self.waiting is None:
            return self.works
        return self._with(self.waiting.work, self.waiting.level(None))

    def _with(self, window: Work, load: float) -> Mapping[int, Work]:
        level = floor(log(max(load, LEAST)) / STEP)
        works = {
            each: work.faded(KEEP)
            for each, work in self.works.items()
            if work.polls > FORGOTTEN
        }
        works[level] = works[level].plus(window) if level in works else window
        return works
