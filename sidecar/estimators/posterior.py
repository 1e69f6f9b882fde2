"""What the points say about the line R(n) = α·(1 + b·n).

Continuous batching makes the time in service grow along a line in the concurrency: a
step costs a fixed part (the weights) and a part per sequence. One point cannot tell α
from b, so b = β/α has a prior, log-normal over the published curves (median 0.029,
log-sd 0.7, DESIGN.md section 4), and log α a flat one. For each b on a grid the points
leave a weight, a mean and a sum of squares of log α: all that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

from sidecar.estimators.window import Point

PRIOR_MEDIAN = 0.029
PRIOR_LOG_SD = 0.7
MEMORY = 60.0
"""Points after which an old one weighs 1/e: half an hour of load at the least."""

_HALF = 16
_STEP = 3 * PRIOR_LOG_SD / _HALF
GRID = tuple(PRIOR_MEDIAN * exp(_STEP * i) for i in range(-_HALF, _HALF + 1))
_LOG_PRIOR = tuple(
    -0.5 * (_STEP * i / PRIOR_LOG_SD) ** 2 for i in range(-_HALF, _HALF + 1)
)


@dataclass(frozen=True)
class Line:
    """One line of the posterior.

    Attributes:
        slope: b = β/α, per request.
        log_alpha: mean of log α, log seconds; variance: its variance.
        probability: weight of this slope; they sum to 1.
    """

    slope: float
    log_alpha: float
    variance: float
    probability: float

    def log_throughput(self, concurrency: float) -> float:
        """log X(n) = log n - log α - log(1 + b·n), log requests/s."""
        return log(concurrency) - self.log_alpha - log(1 + self.slope * concurrency)


@dataclass(frozen=True)
class Posterior:
    """Sufficient statistics of all points: Σw, and for each slope Σwz and Σwz².

    z = log R - log(1 + b·n) is what a point says about log α if b is the slope.
    """

    weight: float = 0.0
    sums: tuple[float, ...] = (0.0,) * len(GRID)
    squares: tuple[float, ...] = (0.0,) * len(GRID)
    highest: float = 0.0

    def after(self, point: Point) -> Posterior:
        """The posterior with one more point; the older ones fade a little."""
        keep = exp(-1 / MEMORY)
        w = 1 / point.variance
        z = [point.log_time - log(1 + b * point.concurrency) for b in GRID]
        return Posterior(
            weight=keep * self.weight + w,
            sums=tuple(keep * s + w * x for s, x in zip(self.sums, z, strict=True)),
            squares=tuple(
                keep * s + w * x * x for s, x in zip(self.squares, z, strict=True)
            ),
            highest=max(keep * self.highest, point.concurrency),
        )

    def lines(self) -> list[Line]:
        """The lines that explain the points, with their probabilities."""
        misfit = [
            q - s * s / self.weight
            for s, q in zip(self.sums, self.squares, strict=True)
        ]
        scores = [p - m / 2 for p, m in zip(_LOG_PRIOR, misfit, strict=True)]
        top = max(scores)
        weights = [exp(score - top) for score in scores]
        total = sum(weights)
        return [
            Line(b, s / self.weight, 1 / self.weight, w / total)
            for b, s, w in zip(GRID, self.sums, weights, strict=True)
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


def throughput(lines: list[Line], concurrency: float) -> LogNormal:
    """X(n) over all lines: the mixture's mean and spread of log X."""
    values = [(line, line.log_throughput(concurrency)) for line in lines]
    mean = sum(line.probability * value for line, value in values)
    variance = sum(
        line.probability * ((value - mean) ** 2 + line.variance)
        for line, value in values
    )
    return LogNormal(mean, sqrt(variance))
