"""Capacity from light load: learn R(n) = α·h(n) and read X(n*) off it.

A request among n gets on at the rate 1 / R(n), so what was done in a window, and the
n that the gauge showed meanwhile, measure α for each shape h that R may have
(``window``); the shapes are weighed by how well they explain all windows
(``posterior``). The capacity is X(n) = n / R(n) at the concurrency limit n*
(``limits``), over the tokens of a request where tokens are what is counted (``mix``).
While requests wait, the throughput is the capacity, and that evidence is weighed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import hypot, log, sqrt

from sidecar.estimators.base import Estimate
from sidecar.estimators.limits import Limit, Seen, lowest
from sidecar.estimators.mix import Lengths, Ratio, computed_prompts
from sidecar.estimators.posterior import Line, LogNormal, Posterior, throughput
from sidecar.estimators.window import Unit, Window, unit_of, units_of
from sidecar.interval import Interval
from sidecar.settings import Settings

BAND = 1.2816
"""Standard deviations between the middle and either end of an 80 % interval."""

EXTRAPOLATION = 0.1
"""Error of log X for each factor e between the highest n seen and n*."""

SATURATED_ERROR = 0.03
SATURATED_MEMORY = 300.0
"""Seconds of saturation that are remembered at full weight."""


@dataclass(frozen=True)
class Saturation:
    """What was done while requests waited, in ``seconds``; the oldest fades.

    Attributes:
        units: tokens, or requests where no tokens are counted.
    """

    units: float = 0.0
    completions: float = 0.0
    seconds: float = 0.0

    def after(self, interval: Interval, unit: Unit) -> Saturation:
        """With one more interval; the same unless requests waited in it."""
        if not interval.queued:
            return self
        keep = max(0.0, 1 - interval.duration / SATURATED_MEMORY)
        return Saturation(
            keep * self.units + units_of(interval, unit),
            keep * self.completions + interval.completions,
            keep * self.seconds + interval.duration,
        )

    def rate(self, unit: Unit) -> LogNormal:
        """Units/s: counting noise and a little model error."""
        noise = 1 / self.completions if unit is Unit.REQUEST else 0.0
        level = log(max(self.units, 0.5) / self.seconds)
        return LogNormal(level, sqrt(noise + SATURATED_ERROR**2))


@dataclass(frozen=True)
class CurveState:
    """All that is remembered: the open window, the points' statistics, the limits.

    Attributes:
        decoding: seconds of decoding over those of service: the rest is prefill.
        prompts: prompt tokens computed over tokens generated.
        unit: what α is the time of, and what is counted while requests wait.
    """

    window: Window = field(default_factory=Window)
    posterior: Posterior = field(default_factory=Posterior)
    seen: Seen = field(default_factory=Seen)
    lengths: Lengths = field(default_factory=Lengths)
    lines: tuple[Line, ...] = ()
    saturation: Saturation = field(default_factory=Saturation)
    decoding: Ratio = field(default_factory=Ratio)
    prompts: Ratio = field(default_factory=Ratio)
    unit: Unit = Unit.REQUEST
    evidence: float = 0.0


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

        An idle interval says nothing about capacity and leaves everything as it was.
        """
        if interval.completions == 0 and max(interval.running) == 0:
            return state, None
        unit = unit_of(interval)
        if state.unit is not unit:
            state = _in_other_units(state, unit)
        units = units_of(interval, unit)
        state = replace(
            state,
            window=state.window.after(interval),
            seen=state.seen.after(interval),
            lengths=state.lengths.after(units, interval.completions),
            decoding=state.decoding.after(
                interval.decode_seconds, interval.service_seconds
            ),
            prompts=state.prompts.after(
                computed_prompts(interval), interval.generation_tokens
            ),
            saturation=state.saturation.after(interval, unit),
        )
        if state.window.is_full:
            state = _with_point(state)
        elif state.posterior.weight == 0 and (point := state.window.point()):
            # The first window is long: say what it says so far.
            early = state.posterior.after(point)
            lines = tuple(early.lines(state.prompts.value))
            return state, self._estimate(replace(state, posterior=early, lines=lines))
        return state, self._estimate(state)

    def _estimate(self, state: CurveState) -> Estimate | None:
        in_tokens = state.unit is not Unit.REQUEST
        length = state.lengths.mean if in_tokens else 1.0
        if not state.lines or length is None:
            return None
        lines = state.lines
        limit = self._limit(state, length)
        at_work = limit.requests
        if state.unit is Unit.DECODED_TOKEN:
            at_work = max(1.0, min(1.0, state.decoding.value or 1.0) * at_work)
        capacity = throughput(lines, at_work)
        reach = max(0.0, log(limit.requests / state.posterior.highest))
        capacity = LogNormal(capacity.mean, hypot(capacity.sd, EXTRAPOLATION * reach))
        method = f"curve at n* = {limit.requests:.0f} ({limit.origin})"
        # The objective caps the concurrency, so what the queue shows lies beyond it.
        if state.saturation.completions >= 1 and limit.origin != _OBJECTIVE:
            capacity = capacity.combined(state.saturation.rate(state.unit))
            method += ", with the rate seen while requests waited"
        if in_tokens:
            spread = hypot(capacity.sd, sqrt(state.lengths.variance))
            capacity = LogNormal(capacity.mean - log(length), spread)
            method += f", at {length:.0f} tokens a request"
        return Estimate(
            capacity=capacity.median,
            lower=capacity.quantile(-BAND),
            upper=capacity.quantile(BAND),
            concurrency_limit=limit.requests,
            evidence=state.evidence + state.window.completions,
            method=method,
        )

    def _limit(self, state: CurveState, length: float) -> Limit:
        limit = lowest(state.seen, self.max_concurrency)
        if self.latency_objective is None:
            return limit
        allowed = _within(self.latency_objective / length, state.lines)
        return min(limit, Limit(max(1.0, allowed), _OBJECTIVE), key=_requests)


_OBJECTIVE = "latency objective"


def _requests(limit: Limit) -> float:
    return limit.requests


def _within(objective: float, lines: tuple[Line, ...]) -> float:
    """The concurrency at which the time of a request (or token) is the objective."""
    low, high = 1.0, 1e5
    while high / low > 1.001:
        middle = sqrt(low * high)
        if log(middle) - throughput(lines, middle).mean > log(objective):
            high = middle
        else:
            low = middle
    return low


def _with_point(state: CurveState) -> CurveState:
    """The full window becomes a point."""
    window, point = state.window, state.window.point()
    if point is None:
        return replace(state, window=Window())
    posterior = state.posterior.learn(point)
    evidence = state.evidence + window.completions
    if posterior.scores is not state.posterior.scores and state.unit is Unit.REQUEST:
        # Requests have become others, and with them the rate at saturation.
        state = replace(state, saturation=Saturation())
    return replace(
        state,
        window=Window(),
        posterior=posterior,
        lines=tuple(posterior.lines(state.prompts.value)),
        evidence=evidence,
    )


def _in_other_units(state: CurveState, unit: Unit) -> CurveState:
    """The page counts other things now: learn the level anew, keep the shape."""
    return replace(
        state,
        window=Window(),
        posterior=state.posterior.without_level(),
        lines=(),
        saturation=Saturation(),
        lengths=Lengths(),
        unit=unit,
    )


def build(settings: Settings, max_concurrency: float | None) -> CurveEstimator:
    """The estimator as configured; the setting wins over what was found."""
    return CurveEstimator(
        max_concurrency=settings.max_concurrency or max_concurrency,
        latency_objective=settings.latency_objective,
    )
