"""What the points say about the curve R(n) = α·h(n).

The shape h has a prior, ``shapes``, and log α a flat one. For each candidate shape the
points leave a mean and a sum of squares of log α: all that is kept, however many points
there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

from sidecar.estimators.shapes import SLOPES, Shape, candidates, heights, prior
from sidecar.estimators.window import Point

MEMORY = 120.0
"""Points after which an old one weighs 1/e: half an hour of load at the least."""

SURPRISE = 2.5
"""Standard deviations by which a point is off that chance does not explain."""

_ENOUGH_TO_BE_SURPRISED = 60.0
"""Σ1/variance of the points before one can be called surprising."""

_DRIFT = 0.1
"""Standard deviation of log α from one point to the next that means nothing."""

_LEAST_VARIANCE = 1e-8
"""What rounding may leave of the difference of two squares."""

_LEAST_SCORE = -8.0
"""However unlikely the points before made a shape, new ones may bring it back."""

_NEGLIGIBLE = 1e-2
"""Of the most probable candidate's weight; what is below does not count."""


@dataclass(frozen=True)
class Line:
    """One candidate after the evidence.

    Attributes:
        index: of the candidate.
        log_alpha: mean of log α, log seconds; variance: its variance.
        probability: they sum to 1 over all lines.
    """

    index: int
    log_alpha: float
    variance: float
    probability: float

    @property
    def shape(self) -> Shape:
        """The candidate."""
        return candidates()[self.index]


@dataclass(frozen=True)
class Posterior:
    """Sufficient statistics of all points: Σw, and for each shape Σwz and Σwz².

    z is what a point says about log α if the shape is h.

    Attributes:
        scores: log likelihood of each shape from before the level was learned anew.
        highest: concurrency met lately, requests.
        surprises: 1 or -1 after a point that was surprisingly high or low, else 0.
    """

    weight: float = 0.0
    sums: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    highest: float = 0.0
    surprises: int = 0

    def after(self, point: Point) -> Posterior:
        """The posterior with one more point; the older ones fade a little."""
        keep = exp(-1 / MEMORY)
        w = 1 / point.variance
        z = point.log_alphas
        zero = (0.0,) * len(z)
        sums, squares = self.sums or zero, self.squares or zero
        return replace(
            self,
            weight=keep * self.weight + w,
            sums=tuple(keep * s + w * x for s, x in zip(sums, z, strict=True)),
            squares=tuple(
                keep * s + w * x * x for s, x in zip(squares, z, strict=True)
            ),
            highest=max(keep * self.highest, point.concurrency),
        )

    def _evidence(self) -> list[float]:
        """Log likelihood of each candidate, up to a constant."""
        before = self.scores or (0.0,) * len(self.sums)
        return [
            score - (q - s * s / self.weight) / 2
            for score, s, q in zip(before, self.sums, self.squares, strict=True)
        ]

    def learn(self, point: Point) -> Posterior:
        """With one more point, noticing when requests have become others.

        Longer or shorter requests move the level α at once and leave the shape: after
        two points in a row that chance does not explain, or one that is far off, the
        level is learned anew and what the points said of the shape is kept.
        """
        if self.weight < _ENOUGH_TO_BE_SURPRISED:
            return self.after(point)
        evidence = self._evidence()
        best = evidence.index(max(evidence))
        sd = sqrt(point.variance + 1 / self.weight + _DRIFT**2)
        off = (point.log_alphas[best] - self.sums[best] / self.weight) / sd
        if abs(off) < SURPRISE:
            return replace(self.after(point), surprises=0)
        side = 1 if off > 0 else -1
        again = self.surprises * side > 0
        if abs(off) > 2 * SURPRISE or again:
            return self.without_level().after(point)
        return replace(self.after(point), surprises=side)

    def without_level(self) -> Posterior:
        """Knowing what the points said of the shape, but nothing of α."""
        if not self.weight:
            return self
        scores = self._evidence()
        top = max(scores)
        kept = tuple(max(score - top, _LEAST_SCORE) for score in scores)
        return Posterior(scores=kept, highest=self.highest)

    def lines(self, prompt_ratio: float | None = None) -> list[Line]:
        """The candidates that explain the points, with their probabilities.

        Args:
            prompt_ratio: prompt tokens computed for each token generated, if known.
        """
        density = {b: prior().log_density(b, prompt_ratio) for b in SLOPES}
        scores = [
            shape.weight + density[shape.slope] + evidence
            for shape, evidence in zip(candidates(), self._evidence(), strict=True)
        ]
        top = max(scores)
        weights = [exp(score - top) for score in scores]
        kept = [i for i, w in enumerate(weights) if w > _NEGLIGIBLE]
        total = sum(weights[i] for i in kept)
        return [
            Line(
                i,
                self.sums[i] / self.weight,
                1 / self.weight,
                weights[i] / total,
            )
            for i in kept
        ]


@dataclass(frozen=True)
class LogNormal:
    """A positive quantity known up to a factor: mean and sd of its logarithm."""

    mean: float
    sd: float

    @property
    def median(self) -> float:
        """Its middle value."""
        return exp(self.mean)

    def quantile(self, z: float) -> float:
        """The value z standard deviations from the middle."""
        return exp(self.mean + z * self.sd)

    def combined(self, other: LogNormal) -> LogNormal:
        """Both together, each weighted by its precision."""
        p, q = self.sd**-2, other.sd**-2
        mean = (p * self.mean + q * other.mean) / (p + q)
        return LogNormal(mean, 1 / sqrt(p + q))


def throughput(lines: Sequence[Line], concurrency: float) -> LogNormal:
    """X(n) = n / (α·h(n)) over all lines: the mixture's mean and spread of log X."""
    at, mean, square = heights(concurrency), 0.0, 0.0
    for line in lines:
        value = log(concurrency / at[line.index]) - line.log_alpha
        mean += line.probability * value
        square += line.probability * (value * value + line.variance)
    return LogNormal(mean, sqrt(max(square - mean * mean, _LEAST_VARIANCE)))
