"""One run: all methods on the same intervals, and how far they are from the truth."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sidecar.estimators.base import Estimator, Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.rate import RateEstimator
from sidecar.interval import Interval

MINUTE = 60.0


@dataclass(frozen=True)
class Run:
    """Values over the truth, at the end of one run.

    Attributes:
        curve, lower, upper: the estimate and its band.
        rate: the seed's, its lifetime maximum of single polls.
        peak: the highest rate of any minute.
    """

    curve: float
    lower: float
    upper: float
    rate: float
    peak: float


def run(found: Iterable[Interval], limit: float | None, truth: float) -> Run:
    """All methods on the same intervals; an estimator that says nothing says 0.

    Args:
        limit: the sequence limit as the command line would show it, requests.
        truth: the capacity, requests/s.
    """
    intervals = list(found)
    curve = last(CurveEstimator(limit), intervals).estimate
    rate = last(RateEstimator(floor=0.0), intervals).estimate
    done = [each.completions for each in intervals]
    polls = max(1, round(MINUTE / intervals[0].duration))
    minutes = (sum(done[i : i + polls]) for i in range(max(1, len(done) - polls + 1)))
    peak = max(minutes) / MINUTE
    return Run(
        (curve.capacity if curve else 0.0) / truth,
        (curve.lower or 0.0 if curve else 0.0) / truth,
        (curve.upper or 0.0 if curve else 0.0) / truth,
        (rate.capacity if rate else 0.0) / truth,
        peak / truth,
    )


def last(estimator: Estimator[Any], intervals: Iterable[Interval]) -> Learning[Any]:
    """What is known after all of them."""
    learning = Learning.begin(estimator)
    for interval in intervals:
        learning = learning.after(interval)
    return learning


COLUMNS = (
    "work",
    "runs",
    "median error",
    "within 10 %",
    "within 20 %",
    "estimate / truth",
    "band holds it",
    "`rate` / truth",
    "peak / truth",
)


def row(name: str, runs: list[Run]) -> str:
    """A line of the table."""
    errors = [abs(each.curve - 1) for each in runs]

    def share(most: float) -> str:
        return f"{sum(error <= most for error in errors) / len(runs):.0%}"

    covered = sum(each.lower <= 1 <= each.upper for each in runs) / len(runs)
    ratios = [each.curve for each in runs]
    cells = [
        name,
        str(len(runs)),
        f"{statistics.median(errors):.1%}",
        share(0.1),
        share(0.2),
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{covered:.0%}",
        f"{statistics.median(each.rate for each in runs):.2f}",
        f"{statistics.median(each.peak for each in runs):.2f}",
    ]
    return f"| {' | '.join(cells)} |"
