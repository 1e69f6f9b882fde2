"""Capacity from light load: fit R(n) = α + β·n and read X(n*) off it.

Little's law gives the mean time in service R at the concurrency n that requests met;
with the line through such points X(n) = n / (α + β·n), and the capacity is X at the
concurrency limit n*. While requests wait, the throughput is the capacity, and that
evidence is weighed in. DESIGN.md section 4 tells where each number comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, hypot, log, sqrt

from sidecar.estimators.base import Estimate
from sidecar.estimators.limits import Limit, Seen, lowest
from sidecar.estimators.posterior import Line, LogNormal, Posterior, throughput
from sidecar.estimators.window import Window
from sidecar.interval import Interval
from sidecar.settings import Settings

BAND = 1.2816
"""Standard deviations between the middle and either end of an 80 % interval."""

EXTRAPOLATION = 0.07
"""Error of log X for each factor e between the highest n seen and n*."""

SATURATED_ERROR = 0.03
SATURATED_MEMORY = 300.0
"""Seconds of saturation that are remembered at full weight."""


@dataclass(frozen=True)
class CurveState:
    """All that is remembered: the open window, the points' statistics, the limits."""

    window: Window = field(default_factory=Window)
    posterior: Posterior = field(default_factory=Posterior)
    seen: Seen = field(default_factory=Seen)
    saturated_completions: float = 0.0
    saturated_seconds: float = 0.0
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
        window = state.window.after(interval)
        posterior, evidence = state.posterior, state.evidence
        if window.is_full and (point := window.point()):
            posterior = posterior.after(point)
            evidence += window.completions
            window = Window()
        state = CurveState(
            window,
            posterior,
            state.seen.after(interval),
            *_saturated(state, interval),
            evidence,
        )
        return state, self._estimate(state)

    def _estimate(self, state: CurveState) -> Estimate | None:
        posterior, point = state.posterior, state.window.point()
        if point:
            posterior = posterior.after(point)
        if posterior.weight == 0:
            return None
        lines = posterior.lines()
        limit = self._limit(state, lines)
        capacity = throughput(lines, limit.requests)
        reach = max(0.0, log(limit.requests / posterior.highest))
        capacity = LogNormal(capacity.mean, hypot(capacity.sd, EXTRAPOLATION * reach))
        method = f"curve at n* = {limit.requests:.0f} ({limit.origin})"
        # The objective caps the concurrency, so what the queue shows lies beyond it.
        if state.saturated_completions > 0 and limit.origin != _OBJECTIVE:
            capacity = capacity.combined(_seen_capacity(state))
            method += ", with the rate seen while requests waited"
        return Estimate(
            capacity=capacity.median,
            lower=capacity.quantile(-BAND),
            upper=capacity.quantile(BAND),
            concurrency_limit=limit.requests,
            evidence=state.evidence + state.window.completions,
            method=method,
        )

    def _limit(self, state: CurveState, lines: list[Line]) -> Limit:
        limit = lowest(state.seen.limits(), self.max_concurrency)
        if self.latency_objective is None:
            return limit
        allowed = _within(self.latency_objective, lines)
        return min(limit, Limit(max(1.0, allowed), _OBJECTIVE), key=_requests)


_OBJECTIVE = "latency objective"


def _requests(limit: Limit) -> float:
    return limit.requests


def _within(objective: float, lines: list[Line]) -> float:
    """(objective - α) / β, the concurrency at which R reaches the objective."""
    log_alpha = sum(line.probability * line.log_alpha for line in lines)
    slope = exp(sum(line.probability * log(line.slope) for line in lines))
    return (objective / exp(log_alpha) - 1) / slope


def _saturated(state: CurveState, interval: Interval) -> tuple[float, float]:
    """Completions and seconds while requests waited, the oldest fading."""
    completions, seconds = state.saturated_completions, state.saturated_seconds
    if interval.queued:
        keep = max(0.0, 1 - interval.duration / SATURATED_MEMORY)
        completions = keep * completions + interval.completions
        seconds = keep * seconds + interval.duration
    return completions, seconds


def _seen_capacity(state: CurveState) -> LogNormal:
    """The rate while requests waited: counting noise and a little model error."""
    completions, seconds = state.saturated_completions, state.saturated_seconds
    sd = sqrt(1 / completions + SATURATED_ERROR**2)
    return LogNormal(log(completions / seconds), sd)


def build(settings: Settings, max_concurrency: float | None) -> CurveEstimator:
    """The estimator as configured; the setting wins over what was found."""
    return CurveEstimator(
        max_concurrency=settings.max_concurrency or max_concurrency,
        latency_objective=settings.latency_objective,
    )
