"""Capacity from light load: learn R(n) = α·h(n) and read X(n*) off it.

Intervals add up to windows (``work``), windows to levels of load (``levels``); the
shapes that h may have are weighed by how well they explain all levels (``posterior``).
The capacity is X(n) = n / R(n) at the concurrency limit n* (``limits``); where tokens
are counted, a request costs its tokens and its prompt (``mix``, ``prompts``). While
requests wait, the throughput is the capacity, and that is weighed in (``saturation``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import hypot, log, sqrt

from sidecar.estimators.base import Estimate
from sidecar.estimators.change import Change, surprise
from sidecar.estimators.levels import MEMORY, Levels
from sidecar.estimators.limits import OBJECTIVE, Limit, Seen, lowest
from sidecar.estimators.mix import Lengths
from sidecar.estimators.posterior import (
    Evidence,
    LogNormal,
    Posterior,
    Scores,
    evidence,
    explain,
)
from sidecar.estimators.prompts import Prefills, PromptCost
from sidecar.estimators.saturation import Saturation
from sidecar.estimators.shapes import log_weights, prior
from sidecar.estimators.work import Unit, Work
from sidecar.interval import Interval
from sidecar.settings import Settings

BAND = 1.2816
"""Standard deviations between the middle and either end of an 80 % interval."""

MODEL_ERROR = 0.03
"""Of log X, however much was seen."""

TOKENS_BEYOND_SD = 0.04
"""Error of log X for each factor e between the highest n seen and n*, for tokens: the
time of a step is a line, and what bends requests, their prompts, is counted apart."""

BENT_BEYOND_SD = 0.08
"""More of it where R bends: two parts in a hundred of R at light load are a quarter of
what lies beyond."""

ENOUGH_COMPLETIONS, ENOUGH_SECONDS, ENOUGH_SERVICE_TIMES = 8.0, 15.0, 1.0
ENOUGH_TOKENS = 500.0
"""A window: tokens are done at once, requests take their time."""

ENOUGH_NEWS = 0.1
"""Of all windows: so many more, and the levels are asked anew."""

_ALONE_ERROR = 0.03
"""Of the log of what a token takes alone, when requests have become others."""

FEWEST_TOKENS, FEWEST_COMPLETIONS = 50.0, 4.0
"""Fewer measure nothing; with four log R is off by a half, and the band says so."""

FEWEST_READINGS = 4.0
"""Requests seen on the gauge: it is read when it may just have dipped."""

WARM_UP = 5.0
"""Requests that a new worker is slow with: kernels compile, caches fill."""


@dataclass(frozen=True)
class CurveState:
    """All that is remembered; its size does not grow.

    Attributes:
        window: the open one. levels: the closed ones.
        before: scores of the shapes from levels that hold no more.
        alone: what a token takes alone, from such levels.
        known: what that said of the curve when it was last asked.
        windows, asked_at: closed since the level was learned anew, and by then.
        unit: what α is the time of, and what is counted while requests wait.
        evidence: completions learned from.
    """

    window: Work = field(default_factory=Work)
    levels: Levels = field(default_factory=Levels)
    before: Scores = ()
    alone: Evidence | None = None
    known: Posterior = field(default_factory=Posterior)
    change: Change = field(default_factory=Change)
    seen: Seen = field(default_factory=Seen)
    lengths: Lengths = field(default_factory=Lengths)
    prefills: Prefills = field(default_factory=Prefills)
    saturation: Saturation = field(default_factory=Saturation)
    unit: Unit = Unit.REQUEST
    windows: int = 0
    asked_at: int = 0
    evidence: float = 0.0

    @property
    def prompt_cost(self) -> PromptCost:
        """The time of a prompt token, where units do not hold their prompts."""
        if self.unit is Unit.REQUEST:
            return PromptCost()
        alone = self.window.area / max(1.0, self.window.units)
        return self.prefills.cost(self.known.alpha or alone)


@dataclass(frozen=True)
class CurveEstimator:
    """Capacity from the curve of service time over concurrency.

    Attributes:
        max_concurrency: the sequence limit, requests; None: not known.
        latency_objective: the mean time in service to keep, seconds; None: none.
    """

    max_concurrency: float | None = None
    latency_objective: float | None = None

    def start(self) -> CurveState:
        """Nothing seen."""
        return CurveState()

    def step(
        self, state: CurveState, interval: Interval
    ) -> tuple[CurveState, Estimate | None]:
        """Learn from the interval, then say what is known.

        An idle interval says nothing about capacity and leaves everything as it was,
        and so do a new worker's first requests.
        """
        idle = interval.completions == 0 and max(interval.running) == 0
        if idle or (interval.left_before is not None and interval.left_before < WARM_UP):
            return state, None
        unit = Unit.best(interval)
        if state.unit is not unit:
            state = _in_other_units(state, unit)
        # Preempted requests are computed anew: that is beyond n*, not on the curve.
        lengths = state.lengths
        window = state.window if interval.preempted else state.window.after(interval, unit)
        state = replace(
            state,
            window=window,
            seen=state.seen.after(interval),
            # Of a request that runs half is done, on average.
            lengths=state.lengths.after(
                None if unit is Unit.REQUEST else unit.done(interval),
                interval.completions + interval.growth / 2,
            ),
            prefills=state.prefills.after(interval),
            saturation=state.saturation.after(interval, unit),
        )
        if state.lengths.changes > lengths.changes:
            state = _with_other_lengths(state)
        if _is_full(state.window, unit):
            state = _closed(state)
        elif not state.known.lines and _says_something(state.window, unit):
            # The first window is long: say what it says so far.
            return state, self._estimate(_closed(state))
        return state, self._estimate(state)

    def _estimate(self, state: CurveState) -> Estimate | None:
        known = state.known
        length = 1.0 if state.unit is Unit.REQUEST else state.lengths.mean
        if not known.lines or length is None:
            return None
        cost = state.prompt_cost
        prompt_seconds = cost.seconds * (state.prefills.lengths.mean or 0.0) / length
        limit = self._limit(state, length, prompt_seconds)
        at_work = limit.requests
        if state.unit is Unit.DECODED_TOKEN:
            at_work = _decoding(known, at_work, length, prompt_seconds)
        capacity = known.throughput(at_work, prompt_seconds)
        prompts = prompt_seconds * capacity.median * cost.log_sd
        reach = max(0.0, log(limit.requests / state.levels.highest))
        tokens = state.unit is not Unit.REQUEST
        beyond = reach * (TOKENS_BEYOND_SD if tokens else prior().beyond_sd)
        beyond += reach * BENT_BEYOND_SD * known.bent
        spread = hypot(capacity.sd, prompts, beyond, MODEL_ERROR)
        capacity = LogNormal(capacity.mean, spread)
        method = f"curve at n* = {limit.requests:.0f} ({limit.origin})"
        # The objective caps the concurrency, so what the queue shows lies beyond it.
        saturated = state.saturation.rate(state.unit)
        if saturated and limit.origin != OBJECTIVE:
            capacity = capacity.combined(saturated)
            method += ", with the rate seen while requests waited"
        if tokens:
            spread = hypot(capacity.sd, sqrt(state.lengths.variance))
            capacity = LogNormal(capacity.mean - log(length), spread)
            method += f", at {length:.0f} tokens a request"
        return Estimate(
            capacity=capacity.harmonic,
            lower=capacity.quantile(-BAND),
            upper=capacity.quantile(BAND),
            concurrency_limit=limit.requests,
            limited_by=limit.origin,
            evidence=state.evidence + state.window.completions,
            method=method,
        )

    def _limit(
        self, state: CurveState, length: float, prompt_seconds: float
    ) -> Limit:
        limit = lowest(state.seen, self.max_concurrency, state.lengths.mean)
        if self.latency_objective is None:
            return limit
        objective = self.latency_objective / length
        allowed = _within(objective, state.known, prompt_seconds)
        if allowed < limit.requests:
            return Limit(allowed, OBJECTIVE)
        return limit


def _decoding(
    known: Posterior, running: float, length: float, prompt_seconds: float
) -> float:
    """How many of those that run decode; the others compute their prompts.

    A prefill takes a step and its prompt's own time, and by Little's law so many are
    in it as come in that time.
    """
    tokens = known.throughput(running, prompt_seconds).median
    step = running * (1 / tokens - prompt_seconds)
    prefilling = tokens / length * (step + prompt_seconds * length)
    return max(1.0, running - prefilling, running / 2)


def _within(
    objective: float, known: Posterior, prompt_seconds: float
) -> float:
    """The concurrency at which the time of a request (or token) is the objective."""
    low, high = 1.0, 1e5
    while high / low > 1.001:
        middle = sqrt(low * high)
        time = log(middle) - known.throughput(middle, prompt_seconds).mean
        if time > log(objective):
            high = middle
        else:
            low = middle
    return low


def _is_full(window: Work, unit: Unit) -> bool:
    """Whether a window spans enough completions, seconds and service times."""
    if window.seconds < ENOUGH_SECONDS:
        return False
    if unit is not Unit.REQUEST:
        return window.units >= ENOUGH_TOKENS
    if window.completions < ENOUGH_COMPLETIONS:
        return False
    return window.seconds >= ENOUGH_SERVICE_TIMES * window.service_time


def _says_something(window: Work, unit: Unit) -> bool:
    if window.area <= 0 or (
        unit is not Unit.DECODED_TOKEN and window.readings < FEWEST_READINGS
    ):
        return False
    fewest = FEWEST_COMPLETIONS if unit is Unit.REQUEST else FEWEST_TOKENS
    return window.units >= fewest


def _closed(state: CurveState) -> CurveState:
    """The window is added to the levels, or is the first after a change."""
    window, unit, cost = state.window, state.unit, state.prompt_cost
    state = replace(state, window=Work(), evidence=state.evidence + window.completions)
    found = evidence(window, unit, cost)
    if found is None:
        return state
    levels, windows = state.levels.after(window, unit), state.windows + 1
    change = Change()
    if state.known.lines:
        change = state.change.after(surprise(found, state.known), window)
    if change.is_certain:
        return _explained(_of_others(state, change.recent))
    state = replace(state, levels=levels, change=change, windows=windows)
    if windows - state.asked_at < ENOUGH_NEWS * min(windows, MEMORY):
        return state
    return _explained(state)


def _of_others(state: CurveState, recent: Iterable[Work]) -> CurveState:
    """Requests have become others: learn their level, keep the shape."""
    levels = Levels()
    for each in recent:
        levels = levels.after(each, state.unit)
    # Where requests are counted, the rate at saturation was that of the others.
    kept = Saturation() if state.unit is Unit.REQUEST else state.saturation
    return replace(
        state,
        levels=levels,
        before=state.known.kept,
        change=Change(),
        saturation=kept,
        windows=0,
    )


def _with_other_lengths(state: CurveState) -> CurveState:
    """Tokens are counted, and a request has more or fewer of them.

    It holds another part of the cache, and more of it to read at each step: a token
    takes as long as before alone, but another time among others.
    """
    state = replace(state, seen=state.seen.of_others())
    if not state.known.lines:
        return state
    alone = state.known.throughput(1.0)
    return replace(
        state,
        window=Work(),
        levels=Levels(highest=state.levels.highest),
        before=(),
        alone=Evidence(1.0, -alone.mean, alone.sd**2 + _ALONE_ERROR**2),
        change=Change(),
        windows=0,
        asked_at=0,
    )


def _explained(state: CurveState) -> CurveState:
    """Ask the levels anew."""
    unit, cost = state.unit, state.prompt_cost
    every = [evidence(work, unit, cost) for work in state.levels.all()]
    weights = log_weights(tokens=unit is not Unit.REQUEST)
    found = [each for each in (*every, state.alone) if each]
    known = explain(found, weights, state.before)
    return replace(state, known=known, asked_at=state.windows)


def _in_other_units(state: CurveState, unit: Unit) -> CurveState:
    """The page counts other things now: learn the level anew, keep the shape."""
    return replace(
        state,
        window=Work(),
        levels=Levels(highest=state.levels.highest),
        before=state.known.kept,
        alone=None,
        known=Posterior(),
        change=Change(),
        saturation=Saturation(),
        unit=unit,
        windows=0,
        asked_at=0,
    )


def build(settings: Settings, max_concurrency: float | None) -> CurveEstimator:
    """The estimator as configured; the setting wins over what was found."""
    return CurveEstimator(
        max_concurrency=settings.max_concurrency or max_concurrency,
        latency_objective=settings.latency_objective,
    )
