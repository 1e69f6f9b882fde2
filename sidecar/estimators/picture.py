"""What was learned of the curve, as points and a line to draw: all in requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from typing import NamedTuple

from sidecar.estimators.base import Estimate
from sidecar.estimators.curve import BAND, CurveEstimator
from sidecar.estimators.evidence import Evidence, evidence
from sidecar.estimators.knowledge import Knowledge
from sidecar.estimators.limits import Seen
from sidecar.estimators.saturation import Saturation
from sidecar.estimators.work import Unit

STEP = 0.03
"""Between points of the line, of log n: on those at which shapes are computed, so that
their rounding does not show."""


class Rate(NamedTuple):
    """X(n) with its 80 % interval.

    Attributes:
        concurrency: n, requests.
        middle, lower, upper: requests/s.
    """

    concurrency: float
    middle: float
    lower: float
    upper: float

    @property
    def time(self) -> tuple[float, float, float]:
        """R = n / X by Little's law, seconds per request: middle, lower, upper."""
        n = self.concurrency
        return n / self.middle, n / self.upper, n / self.lower


class Level(NamedTuple):
    """What one level of load showed, and the completions that it rests on."""

    rate: Rate
    completions: float


@dataclass(frozen=True)
class Picture:
    """The curve as it was learned.

    Attributes:
        levels: by concurrency. What carries over from requests that have become others
            is in the line only.
        line: the capacity if n were the limit, by n, from one request to the limit or
            the highest level. What the queue showed is in ``capacity`` only.
        capacity: the estimate, at the limit n*.
        limited_by: what sets n*, in words.
    """

    levels: tuple[Level, ...]
    line: tuple[Rate, ...]
    capacity: Rate
    limited_by: str


def picture(state: Knowledge, estimate: Estimate | None) -> Picture | None:
    """What is known, to draw; None while it is nothing.

    Args:
        estimate: the last, which may be held from before the state.
    """
    state, capacity = state.so_far, _read(estimate)
    if estimate is None or capacity is None:
        return None
    limit = capacity.concurrency
    levels = tuple(sorted(_levels(state)))
    highest = max([limit, *(level.rate.concurrency for level in levels)])
    between = {exp(STEP * i) for i in range(ceil(log(highest) / STEP))}
    # n* itself is on the line, wherever it is.
    grid = sorted(between | {limit, highest})
    line = tuple(rate for n in grid if (rate := _read(_at(state, n))))
    if not line:
        return None
    return Picture(levels, line, capacity, estimate.limited_by)


def _at(state: Knowledge, concurrency: float) -> Estimate | None:
    """The estimate if the worker ran so many: by the estimator itself, told so."""
    told = state._replace(seen=Seen(), saturation=Saturation())
    return CurveEstimator(max_concurrency=concurrency).estimate(told)


def _read(estimate: Estimate | None) -> Rate | None:
    if estimate is None or estimate.lower is None or estimate.upper is None:
        return None
    n = estimate.concurrency_limit
    return Rate(n, estimate.capacity, estimate.lower, estimate.upper) if n else None


def _levels(state: Knowledge) -> Iterator[Level]:
    unit, cost, length = state.unit, state.prompt_cost, state.length
    if length is None:
        return
    prompt = cost.seconds * (state.prefills.lengths.mean or 0.0)
    for work in state.levels.all():
        if found := evidence(work, unit, cost):
            yield Level(_rate(found, unit, length, prompt), work.completions)


def _rate(found: Evidence, unit: Unit, length: float, prompt: float) -> Rate:
    """What a level showed, in requests.

    Each request costs its units' share of the steps, and the time of a prompt, in which
    all that run stand still.

    Args:
        length: units per request.
        prompt: seconds of a request's prompt.
    """
    n, spread = found.concurrency, BAND * sqrt(found.variance)

    def rate(log_time: float) -> float:
        return 1 / (length * exp(log_time) / n + prompt)

    middle = rate(found.log_time)
    running = n
    if unit is Unit.DECODED_TOKEN:
        # A prefill takes a step and its prompt's own time; by Little's law so many
        # more run than decode.
        running += middle * (exp(found.log_time) + prompt)
    low, high = rate(found.log_time + spread), rate(found.log_time - spread)
    return Rate(running, middle, low, high)
