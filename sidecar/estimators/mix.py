"""The mix of requests lately: their lengths, their prompts, their time."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

BLOCK = 20.0
"""Completions that are weighed together against those before."""

MEMORY = 600.0
"""Completions after which an old one weighs 1/e."""

VARIATION = 0.8
"""Standard deviation of a request's tokens over their mean: chat traces have 0.6-1."""

FADE = 0.995
"""Of sums over intervals, at each interval: a memory of a quarter of an hour."""

SURPRISE = 3.0
"""Standard deviations by which a block differs from those before if the mix changed."""


@dataclass(frozen=True)
class Lengths:
    """Generated tokens and completions: the open block, and those before it.

    A change of the mix shows as a block that chance does not explain; what came before
    is then forgotten, so that the mean follows within two blocks.
    """

    tokens: float = 0.0
    completions: float = 0.0
    block_tokens: float = 0.0
    block_completions: float = 0.0

    def after(self, generated: float | None, completed: float) -> Lengths:
        """With what one more interval saw; the same where tokens are not counted."""
        if generated is None:
            return self
        tokens = self.block_tokens + generated
        completions = self.block_completions + completed
        if completions < BLOCK or tokens <= 0:
            return Lengths(self.tokens, self.completions, tokens, completions)
        if self._is_another_mix(tokens, completions):
            return Lengths(tokens, completions)
        keep = max(0.0, 1 - completions / MEMORY)
        return Lengths(
            keep * self.tokens + tokens, keep * self.completions + completions
        )

    @property
    def mean(self) -> float | None:
        """Tokens per request; None before the first completions."""
        # The open block is half full of tokens of requests that are not through.
        if self.completions:
            return self.tokens / self.completions
        if self.block_completions < 1 or self.block_tokens <= 0:
            return None
        return self.block_tokens / self.block_completions

    @property
    def variance(self) -> float:
        """Of log ``mean``, from chance alone."""
        return VARIATION**2 / max(1.0, self.completions or self.block_completions)

    def _is_another_mix(self, tokens: float, completions: float) -> bool:
        if not self.completions:
            return False
        change = log(tokens / completions) - log(self.tokens / self.completions)
        chance = VARIATION * sqrt(1 / completions + 1 / self.completions)
        return abs(change) > SURPRISE * chance


@dataclass(frozen=True)
class Ratio:
    """One sum over another, interval by interval; the oldest fade."""

    above: float = 0.0
    below: float = 0.0

    def after(self, above: float | None, below: float | None) -> Ratio:
        """With one more interval; the same where either is not counted."""
        if above is None or below is None:
            return self
        return Ratio(FADE * self.above + above, FADE * self.below + below)

    @property
    def value(self) -> float | None:
        """The ratio; None before there is anything to divide by."""
        return self.above / self.below if self.below > 0 else None

