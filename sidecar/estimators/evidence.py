"""What work says about R(n): a time, among how many, and how exactly."""

from __future__ import annotations

from math import log
from typing import NamedTuple

from sidecar.estimators.prompts import PromptCost
from sidecar.estimators.work import Unit, Work

LEAST_AREA, LEAST_UNITS = 1e-3, 0.5
"""Request seconds, and units: less is no work."""

_CONTEXT_SHARE = 0.01
"""About what each sequence adds to a step by the tokens it holds, over the step alone;
they vary from request to request."""

_CONTEXT_VARIANCE = 0.3

_ELASTICITY = 0.4
"""Of R to n, at the most where a few requests run: by it an error in n is one in R."""


class Evidence(NamedTuple):
    """What work says: a unit took ``log_time`` among ``concurrency``.

    Attributes:
        log_time: log of the seconds of R per unit, prompts taken out.
        variance: of it, by chance.
    """

    concurrency: float
    log_time: float
    variance: float


def evidence(work: Work, unit: Unit, cost: PromptCost) -> Evidence | None:
    """What work says; None if it says nothing.

    While the engine computes prompts nobody decodes, so of a token's time the part φ =
    prompt tokens/s · their time is theirs, and where the gauge counts requests that
    compute their own prompt, that comes off as well.
    """
    if work.area < LEAST_AREA or work.units < LEAST_UNITS:
        return None
    n = work.concurrency(unit)
    if unit is Unit.REQUEST:
        # log(k + 1/2) is unbiased for the log of a Poisson mean, log k is not.
        time = work.area / (work.units + 0.5)
        return Evidence(n, log(time), 1 / work.units + work.gauge_variance)
    stalled = cost.stalled(work.prompts / work.seconds)
    time = work.area / work.units * (1 - stalled)
    if unit is Unit.TOKEN:
        time = max(0.5 * time, time - cost.seconds * work.prompts / work.units)
        return Evidence(n, log(time), work.gauge_variance)
    # Each request that comes stalls all that run: as many draws as there were such.
    draws = max(1.0, work.completions)
    context = _CONTEXT_SHARE * work.mean / (1 + _CONTEXT_SHARE * work.mean)
    by_prompts = stalled**2 / max(work.mean, 0.1)
    variance = (by_prompts + _CONTEXT_VARIANCE * context**2) / draws
    # What the intervals hide is there on average, not in each.
    variance += _ELASTICITY**2 * (work.hidden(unit) / n) ** 2 / work.polls
    return Evidence(n, log(time), variance)
