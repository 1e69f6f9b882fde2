"""What the levels say about the curve R(n) = α·h(n).

The shape h has a prior, ``shapes``, and log α a flat one. For each candidate shape the
levels leave a mean of log α and a likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, hypot, log, sqrt
from typing import NamedTuple

from sidecar.estimators.evidence import Evidence
from sidecar.estimators.shapes import Shape, candidates, log_heights

MODEL_ERROR = 0.01
"""Scatter of log R around a smooth curve, beyond counting noise."""

_LEAST_VARIANCE = 1e-8
"""What rounding may leave of the difference of two squares."""

_LEAST_SCORE = -8.0
"""However unlikely the evidence before made a shape, new one may bring it back."""

_NEGLIGIBLE = 0.02
"""Of the most probable candidate's weight; what is below does not count."""


class LogNormal(NamedTuple):
    """A positive quantity known up to a factor: mean and sd of its logarithm."""

    mean: float
    sd: float

    @property
    def median(self) -> float:
        """Its middle value."""
        return exp(self.mean)

    @property
    def harmonic(self) -> float:
        """1 / E[1/x]. As a capacity: the one that gives the right number of workers,
        demand times 1/x, on average."""
        return exp(self.mean - self.sd**2 / 2)

    def widened(self, *spreads: float) -> LogNormal:
        """With further, independent errors of its logarithm."""
        return LogNormal(self.mean, hypot(self.sd, *spreads))

    def over(self, divisor: float) -> LogNormal:
        """Divided by what is known exactly."""
        return LogNormal(self.mean - log(divisor), self.sd)

    def quantile(self, z: float) -> float:
        """The value z standard deviations from the middle."""
        return exp(self.mean + z * self.sd)

    def combined(self, other: LogNormal) -> LogNormal:
        """Both together, each weighted by its precision."""
        p, q = self.sd**-2, other.sd**-2
        mean = (p * self.mean + q * other.mean) / (p + q)
        return LogNormal(mean, 1 / sqrt(p + q))


class Line(NamedTuple):
    """One candidate after the evidence.

    Attributes:
        candidate: its index.
        log_alpha: mean of log α, log seconds.
        probability: they sum to 1 over all lines.
    """

    candidate: int
    log_alpha: float
    probability: float

    @property
    def shape(self) -> Shape:
        """The candidate."""
        return candidates()[self.candidate]


Scores = tuple[float, ...]
"""A log likelihood for each candidate, up to a constant."""


@dataclass(frozen=True)
class Posterior:
    """The candidates that explain the evidence.

    Attributes:
        lines: the probable ones.
        variance: of each line's log α.
        scores: log likelihood of all, from the evidence and from before it.
    """

    lines: tuple[Line, ...] = ()
    variance: float = 0.0
    scores: Scores = ()

    @cached_property
    def alpha(self) -> float | None:
        """Seconds of a unit that is alone; None where nothing is known."""
        if not self.lines:
            return None
        return exp(sum(line.probability * line.log_alpha for line in self.lines))

    @cached_property
    def bent(self) -> float:
        """Probability that R bends: a mixture of experts, or a small model."""
        return sum(line.probability for line in self.lines if line.shape.kind.bend)

    @cached_property
    def best(self) -> Posterior:
        """The most probable line alone, for what need not be weighed."""
        line = max(self.lines, key=lambda each: each.probability)
        return Posterior((line._replace(probability=1.0),), self.variance)

    def throughput(self, concurrency: float, prompt_seconds: float = 0.0) -> LogNormal:
        """Units/s at a concurrency: mean and spread of log X over all lines.

        A unit costs its share α·h(n)/n of the steps, and the prompts that come with it.

        Args:
            prompt_seconds: the time of prompts for each unit; none where the unit is a
                request, whose time holds its prompt.
        """
        at, mean, square = log_heights(concurrency), 0.0, self.variance
        level = log(concurrency)
        for candidate, log_alpha, probability in self.lines:
            value = level - at[candidate] - log_alpha
            if prompt_seconds:
                value = -log(exp(-value) + prompt_seconds)
            mean += probability * value
            square += probability * value * value
        return LogNormal(mean, sqrt(max(square - mean * mean, _LEAST_VARIANCE)))

    @property
    def kept(self) -> Scores:
        """The scores as evidence from before: new evidence can overrule them."""
        if not self.scores:
            return ()
        top = max(self.scores)
        return tuple(max(score - top, _LEAST_SCORE) for score in self.scores)


def explain(
    found: Iterable[Evidence], weights: Sequence[float], before: Scores = ()
) -> Posterior:
    """Weigh every candidate.

    Args:
        found: the evidence, each independent of the others.
        weights: log prior of every candidate.
        before: scores from earlier evidence whose level α holds no more; () for none.
    """
    total, sums, squares = 0.0, [0.0] * len(weights), [0.0] * len(weights)
    for each in found:
        w, y = 1 / (each.variance + MODEL_ERROR**2), each.log_time
        z = [y - height for height in log_heights(each.concurrency)]
        total += w
        sums = [s + w * x for s, x in zip(sums, z, strict=True)]
        squares = [s + w * x * x for s, x in zip(squares, z, strict=True)]
    if not total:
        return Posterior()
    earlier = before or (0.0,) * len(weights)
    scores = tuple(
        [
            score - (q - s * s / total) / 2
            for score, s, q in zip(earlier, sums, squares, strict=True)
        ]
    )
    logs = [score + weight for score, weight in zip(scores, weights, strict=True)]
    least = max(logs) + log(_NEGLIGIBLE)
    kept = [(i, exp(score - least)) for i, score in enumerate(logs) if score > least]
    share = sum(p for _, p in kept)
    lines = tuple(Line(i, sums[i] / total, p / share) for i, p in kept)
    return Posterior(lines, 1 / total, scores)
