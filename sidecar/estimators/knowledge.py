"""What the curve's estimator remembers, and how it learns: all but the reading off.

Intervals add up to windows, windows to levels of load; when there is news the levels
are asked which shapes explain them. Requests that become others leave something of what
was known, and take the rest with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

from sidecar.estimators.change import Change, surprise
from sidecar.estimators.evidence import LEAST_AREA, Evidence, evidence
from sidecar.estimators.levels import MEMORY, Levels
from sidecar.estimators.limits import Seen
from sidecar.estimators.mix import Lengths
from sidecar.estimators.posterior import Posterior, Scores, explain
from sidecar.estimators.prompts import Prefills, PromptCost
from sidecar.estimators.saturation import Saturation
from sidecar.estimators.shapes import log_weights
from sidecar.estimators.work import Unit, Work
from sidecar.interval import Interval

ENOUGH_COMPLETIONS, ENOUGH_SECONDS, ENOUGH_SERVICE_TIMES = 8.0, 15.0, 1.0
ENOUGH_TOKENS = 500.0
"""A window: tokens are done at once, requests take their time."""

ENOUGH_NEWS = 0.15
"""Of all windows: so many more, and the levels are asked anew."""

FEWEST_TOKENS, FEWEST_COMPLETIONS = 50.0, 4.0
"""Fewer measure nothing; with four log R is off by a half, and the band says so."""

FEWEST_READINGS = 4.0
"""Requests on the gauge, by which tokens are measured: it may just have dipped."""

MISSING = 12
"""Intervals in a row for which a page may leave out what it counted before."""

RECALLED_WINDOWS = 40.0
"""What an earlier run learned counts for no more: ten minutes, then the new weighs
more."""

_ROUNDS = 4
"""Times to ask what was recalled: α and the cost of prompts have to agree."""

_ALONE_ERROR = 0.03
_ALONE_WINDOWS = 20.0
"""Error of the log of what a token takes alone, when requests have become others; and
the windows after which it is twice as large, for it is not seen again."""


class Knowledge(NamedTuple):
    """All that is remembered; its size does not grow.

    Attributes:
        window: the open one. levels: the closed ones.
        before: scores of the shapes from levels that hold no more.
        alone: what a token takes alone, from such levels.
        known: what that said of the curve when it was last asked.
        alpha: seconds of a unit alone, as of the last few times; None: not asked yet.
        windows, asked_at: closed since the level was learned anew, and by then.
        lengths: units per request.
        unit: what α is the time of, and what is counted while requests wait.
        missing: intervals in a row in which the page did not count such units.
        sequences: the sequence limit as it was told; None: it was not.
        evidence: completions learned from.
    """

    window: Work = Work()
    levels: Levels = Levels()
    before: Scores = ()
    alone: Evidence | None = None
    known: Posterior = Posterior()
    alpha: float | None = None
    change: Change = Change()
    seen: Seen = Seen()
    lengths: Lengths = Lengths()
    prefills: Prefills = Prefills()
    saturation: Saturation = Saturation()
    unit: Unit = Unit.REQUEST
    missing: int = 0
    sequences: float | None = None
    windows: int = 0
    asked_at: int = 0
    evidence: float = 0.0

    def after(self, interval: Interval) -> Knowledge:
        """With one more interval, in which something ran."""
        unit = Unit.best(interval)
        if unit is not self.unit:
            if unit.rank < self.unit.rank and self.missing < MISSING:
                return self._replace(missing=self.missing + 1)
            return self._in_units(unit).after(interval)
        # Preempted requests are computed anew: that is beyond n*, not on the curve.
        learns = not interval.preempted
        now = self._replace(
            window=self.window.after(interval, unit) if learns else self.window,
            seen=self.seen.after(interval),
            lengths=self.lengths.after(
                None if unit is Unit.REQUEST else unit.done(interval),
                interval.completions,
                interval.growth_by_arrivals,
                interval.mean_running,
            ),
            prefills=self.prefills.after(interval),
            saturation=self.saturation.after(interval, unit),
            missing=0,
        )
        if now.lengths.changes > self.lengths.changes:
            now = now._with_other_lengths()
        elif now.prefills.lengths.changes > self.prefills.lengths.changes:
            # At saturation prompts take another part of the time now.
            now = now._replace(saturation=Saturation(), seen=now.seen.of_others())
        return now._closed() if now._is_full else now

    def limited_to(self, sequences: float | None) -> Knowledge:
        """With that sequence limit: what was seen at another is of another worker."""
        if sequences == self.sequences:
            return self
        if self.sequences is None:
            return self._replace(sequences=sequences)
        return self._replace(
            sequences=sequences,
            seen=self.seen.unlimited(),
            saturation=Saturation(),
        )

    @property
    def so_far(self) -> Knowledge:
        """The same; with the open window where there is nothing else, and it says
        something."""
        return self if self.known.lines or not self._says_something else self._closed()

    @property
    def to_keep(self) -> Knowledge:
        """What is worth keeping for another run: all but what is under way."""
        kept = self.so_far
        return kept._replace(window=Work(), known=Posterior(), change=Change())

    def recalled(self) -> Knowledge:
        """As the starting point of another run: it holds, but is soon outweighed."""
        keep = min(1.0, RECALLED_WINDOWS / max(1.0, self.windows))
        windows = int(keep * self.windows)
        levels = self.levels.faded(keep)
        now = self.to_keep._replace(
            levels=levels,
            lengths=self.lengths.checked(),
            prefills=self.prefills.checked(),
            saturation=Saturation(),
            windows=windows,
            evidence=0.0,
        )
        for _ in range(_ROUNDS):
            now = now._explained()
        return now

    @property
    def length(self) -> float | None:
        """Units per request; None where that is not known yet."""
        return 1.0 if self.unit is Unit.REQUEST else self.lengths.mean

    @property
    def prompt_cost(self) -> PromptCost:
        """The time of a prompt token, where units do not hold their prompts."""
        if self.unit is Unit.REQUEST:
            return PromptCost()
        if self.alpha:
            return self.prefills.cost(self.alpha)
        works = [self.window, *self.levels.all()]
        units = sum(work.units for work in works)
        return self.prefills.cost(sum(work.area for work in works) / max(1.0, units))

    @property
    def _is_full(self) -> bool:
        """Whether the window spans enough units, seconds and service times."""
        window = self.window
        if window.seconds < ENOUGH_SECONDS:
            return False
        if self.unit is not Unit.REQUEST:
            return window.units >= ENOUGH_TOKENS
        if window.completions < ENOUGH_COMPLETIONS:
            return False
        return window.seconds >= ENOUGH_SERVICE_TIMES * window.service_time

    @property
    def _says_something(self) -> bool:
        window = self.window
        if window.area < LEAST_AREA:
            return False
        if self.unit is Unit.REQUEST:
            return window.completions >= FEWEST_COMPLETIONS
        if self.unit is Unit.TOKEN and window.readings < FEWEST_READINGS:
            return False
        return window.units >= FEWEST_TOKENS

    def _closed(self) -> Knowledge:
        """The window is added to the levels, or shows that they hold no more."""
        window, unit = self.window, self.unit
        now = self._replace(window=Work(), evidence=self.evidence + window.completions)
        found = evidence(window, unit, self.prompt_cost)
        if found is None or (self.known.lines and window.is_filling(unit)):
            return now
        change = Change()
        if self.known.lines:
            change = self.change.after(surprise(found, self.known), window)
        if change.is_certain:
            return now._of_others(change.recent)._explained()
        now = now._replace(
            levels=self.levels.after(window, unit),
            change=change,
            windows=self.windows + 1,
        )
        news = now.windows - self.asked_at
        enough = ENOUGH_NEWS * min(now.windows, MEMORY)
        return now._explained() if news >= enough else now

    def _explained(self) -> Knowledge:
        """Ask the levels anew."""
        unit, cost = self.unit, self.prompt_cost
        every = [evidence(work, unit, cost) for work in self.levels.all()]
        found = [each for each in every if each]
        if self.alone:
            age = (1 + self.windows / _ALONE_WINDOWS) ** 2
            found.append(self.alone._replace(variance=age * self.alone.variance))
        weights = log_weights(tokens=unit is not Unit.REQUEST)
        known = explain(found, weights, self.before)
        # What prompts cost is told by α, and α without the prompts by their cost: taken
        # at once the two may chase each other for ever.
        alpha = known.alpha
        if self.alpha and alpha:
            alpha = sqrt(self.alpha * alpha)
        return self._replace(known=known, alpha=alpha, asked_at=self.windows)

    def _of_others(self, recent: Iterable[Work]) -> Knowledge:
        """Requests have become others: learn their level, keep the shape."""
        levels = Levels()
        for each in recent:
            levels = levels.after(each, self.unit)
        return self._replace(
            levels=levels,
            before=self.known.kept,
            alone=None,
            change=Change(),
            # The rate at saturation was that of the others.
            saturation=Saturation(),
            windows=0,
        )

    def _with_other_lengths(self) -> Knowledge:
        """Tokens are counted, and a request has more or fewer of them.

        It holds another part of the cache, and more or less of it to read at each step:
        a token takes as long as before alone, but another time among others.
        """
        now = self._replace(seen=self.seen.of_others(), saturation=Saturation())
        if not self.known.lines:
            return now
        alone = self.known.throughput(1.0)
        return now._replace(
            window=Work(),
            levels=Levels(highest=self.levels.highest),
            before=(),
            alone=Evidence(1.0, -alone.mean, alone.sd**2 + _ALONE_ERROR**2),
            change=Change(),
            windows=0,
            asked_at=0,
        )

    def _in_units(self, unit: Unit) -> Knowledge:
        """The page counts other things now: learn the level anew, keep the shape."""
        return self._replace(
            window=Work(),
            levels=Levels(highest=self.levels.highest),
            before=self.known.kept,
            alone=None,
            known=Posterior(),
            alpha=None,
            change=Change(),
            lengths=Lengths(),
            saturation=Saturation(),
            unit=unit,
            missing=0,
            windows=0,
            asked_at=0,
        )
