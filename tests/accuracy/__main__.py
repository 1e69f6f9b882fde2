"""How far estimates are from the truth: ``make accuracy``.

Every row is many runs of known capacity. `curve` is the estimator; `rate` the seed's,
its lifetime maximum of single polls; `peak` the highest rate of any minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sidecar.estimators.base import Estimator, Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.rate import RateEstimator
from sidecar.interval import Interval, between
from sidecar.simulator import PRESETS, measure
from tests.accuracy import curves, workloads
from tests.accuracy.simulated import samples

SEEDS = 3
MINUTE = int(60 / workloads.POLL)


@dataclass(frozen=True)
class Run:
    """Estimates over the truth, at the end of one run."""

    curve: float
    lower: float
    upper: float
    rate: float
    peak: float


def run(found: Iterable[Interval], limit: float, truth: float) -> Run:
    """All methods on the same intervals."""
    intervals = list(found)
    curve = _last(CurveEstimator(limit), intervals)
    rate = _last(RateEstimator(floor=0.0), intervals)
    done = [each.completions for each in intervals]
    minutes = (sum(done[i : i + MINUTE]) for i in range(len(done) - MINUTE + 1))
    estimate = curve.estimate
    if estimate is None or rate.estimate is None:
        return Run(0.0, 0.0, 0.0, 0.0, 0.0)
    return Run(
        estimate.capacity / truth,
        (estimate.lower or 0.0) / truth,
        (estimate.upper or 0.0) / truth,
        rate.estimate.capacity / truth,
        max(minutes) / 60 / truth,
    )


def published(share: float, *, moe: bool) -> Iterator[Run]:
    """Published curves, counter and gauge only, load up to a share of saturation."""
    for curve in curves.load():
        if curve.is_moe is moe:
            for seed in range(SEEDS):
                polls = workloads.intervals(curve, share, seed)
                yield run(polls, curve.limit, curve.capacity)


def simulated(low: float, high: float, minutes: float) -> Iterator[Run]:
    """Every simulated worker, with all that its page has."""
    for name, preset in PRESETS.items():
        truth = measure(preset.shape, preset.mix).capacity
        for seed in range(SEEDS):
            polls = pairwise(samples(name, low, high, minutes, seed))
            found = (between(earlier, later) for earlier, later in polls)
            intervals = [each for each in found if each]
            yield run(intervals, preset.shape.max_num_seqs, truth)


def _last(estimator: Estimator[Any], intervals: list[Interval]) -> Learning[Any]:
    learning = Learning.begin(estimator)
    for interval in intervals:
        learning = learning.after(interval)
    return learning


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

if __name__ == "__main__":
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    print(row("dense curves, up to half", [*published(0.5, moe=False)]), flush=True)
    print(row("dense curves, up to a quarter", [*published(0.25, moe=False)]))
    print(row("mixtures of experts, up to half", [*published(0.5, moe=True)]))
    print(row("simulated, 15 min at 5-30 %", [*simulated(0.05, 0.3, 15)]), flush=True)
