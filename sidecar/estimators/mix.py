"""The mix of requests lately: their lengths, their prompts, their time."""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

BLOCK, FEWEST = 10.0, 5.0
"""Completions that are weighed together against those before; and the fewest that may
be so much longer that no more are needed."""

MEMORY = 600.0
"""Completions after which an old one weighs 1/e."""

VARIATION = 0.8
"""Standard deviation of a request's tokens over their mean: chat traces have 0.6-1."""

RATIO_MEMORY = 900.0
"""Seconds after which an old interval weighs 1/e in a ratio of sums."""

FAR, OFF = 6.0, 3.0
"""Standard deviations by which one block, or two in a row, differ from those before if
the mix changed."""

_PHASE = 1 / 6
"""Of what runs, the variance in requests of how much of it is done, at both ends of a
block together: each is anywhere between its beginning and its end."""

_FILLING = 0.25
"""Of a block's requests unfinished: so many, and the batch fills."""

BLOCKS, MOST_OFF = 20.0, 3.0
"""Blocks to judge the scatter by, and a bound: one odd block excuses no other."""

LEAST_SCATTER, MOST_SCATTER = 0.25, 2.5
"""Bounds: requests that change again and again must not pass for scatter."""


class Count(NamedTuple):
    """Tokens, and the requests that they were for.

    Attributes:
        unfinished: how many of the requests are only under way, by the growth of those
            that run.
        running: requests running lately.
    """

    tokens: float = 0.0
    requests: float = 0.0
    unfinished: float = 0.0
    running: float = 0.0

    def plus(self, other: Count, keep: float = 1.0) -> Count:
        """Both together, this one counting ``keep``."""
        return Count(
            keep * self.tokens + other.tokens,
            keep * self.requests + other.requests,
            keep * self.unfinished + other.unfinished,
            other.running,
        )


class Lengths(NamedTuple):
    """How long requests are: the open block, and those before it.

    A change of the mix shows as blocks that chance does not explain; what came before
    is then forgotten, so that the mean follows within two blocks.

    Attributes:
        doubtful: a block that differed, until the next one tells.
        changes: how often the mix has changed.
        scatter: how far blocks are off lately, mean square over that of VARIATION.
    """

    known: Count = Count()
    block: Count = Count()
    doubtful: Count | None = None
    changes: int = 0
    scatter: float = 1.0

    def after(
        self,
        tokens: float | None,
        completions: float,
        growth: float = 0.0,
        running: float = 0.0,
    ) -> Lengths:
        """With one more interval; the same where tokens are not counted.

        Args:
            growth: of the requests running. Half of one that runs is done, on average;
                less while the batch fills, so what seems short then need not be.
            running: requests running; a block has as many, for fewer say more of how
                far those that run have come than of how long they are.
        """
        if tokens is None:
            return self
        done = completions + growth / 2
        block = self.block.plus(Count(tokens, done, growth / 2, running))
        if block.requests < FEWEST or block.tokens < 1:
            return self._replace(block=block)
        off = self._off(block)
        # However alike requests were, a few may be done in step with each other.
        if (
            block.requests < max(BLOCK, running)
            and off * min(1.0, sqrt(self.scatter)) < FAR
        ):
            return self._replace(block=block)
        if off < 0 and block.unfinished > _FILLING * block.requests:
            return self._replace(block=Count())
        if abs(off) > FAR:
            return self._anew(block, off)
        if self.doubtful:
            both = self.doubtful.plus(block)
            if abs(off) > OFF and off * self._off(self.doubtful) > 0:
                return self._anew(both, off)
            return self._merged(both, off)
        if abs(off) > OFF:
            return self._replace(block=Count(), doubtful=block)
        return self._merged(block, off)

    def checked(self) -> Lengths:
        """The same, or nothing where it cannot be true: a file is not to be trusted."""
        counts = (self.known, self.block, self.doubtful or self.block)
        if any(min(each.tokens, each.requests) < 0 for each in counts):
            return Lengths()
        if self.known.requests and self.known.tokens < 1:
            return Lengths()
        return self._replace(scatter=max(LEAST_SCATTER, self.scatter))

    @property
    def mean(self) -> float | None:
        """Tokens per request; None before the first completions."""
        found = self.known if self.known.requests else self.block
        if found.requests < 1 or found.tokens < 1:
            return None
        return found.tokens / found.requests

    @property
    def variance(self) -> float:
        """Of log ``mean``, from chance alone."""
        found = self.known if self.known.requests else self.block
        return VARIATION**2 / max(1.0, found.requests)

    def _anew(self, block: Count, off: float) -> Lengths:
        return Lengths(block, changes=self.changes + 1, scatter=self._scatter(off))

    def _merged(self, block: Count, off: float) -> Lengths:
        keep = max(0.0, 1 - block.requests / MEMORY)
        known = self.known.plus(block, keep)
        return Lengths(known, changes=self.changes, scatter=self._scatter(off))

    def _scatter(self, off: float) -> float:
        """With one more block: where change follows change it is scatter after all."""
        square = self.scatter * min(abs(off), MOST_OFF) ** 2
        scatter = self.scatter + (square - self.scatter) / BLOCKS
        return min(MOST_SCATTER, max(LEAST_SCATTER, scatter))

    def _off(self, block: Count) -> float:
        """Standard deviations from what is known.

        Of the root, twice: near 1 it is as the logarithm, but a block that happens to
        have no long request in it is not as far off.
        """
        known = self.known
        if not known.requests:
            return 0.0
        ratio = block.tokens / block.requests / (known.tokens / known.requests)
        chance = self.scatter * (1 / block.requests + 1 / known.requests)
        chance += _PHASE * block.running / (VARIATION * block.requests) ** 2
        return 2 * (sqrt(ratio) - 1) / VARIATION / sqrt(chance)


class Ratio(NamedTuple):
    """One sum over another, interval by interval; the oldest fade."""

    above: float = 0.0
    below: float = 0.0

    def after(self, above: float | None, below: float | None, seconds: float) -> Ratio:
        """With so many more seconds; the same where either is not counted."""
        if above is None or below is None:
            return self
        keep = exp(-seconds / RATIO_MEMORY)
        return Ratio(keep * self.above + above, keep * self.below + below)

    @property
    def value(self) -> float | None:
        """The ratio; None before there is anything to divide by."""
        return self.above / self.below if self.below > 0 else None
