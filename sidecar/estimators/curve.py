"""Capacity from light load: learn R(n) = α·h(n) and read X(n*) off it.

What is learned of R is in ``knowledge``; here it becomes a number. The capacity is
X(n) = n / R(n) at the concurrency limit n* (``limits``); where tokens are counted, a
request costs its tokens and its prompt (``mix``, ``prompts``). While requests wait, the
throughput is the capacity, and that is weighed in (``saturation``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

from pydantic import TypeAdapter

from sidecar.engines.base import LARGEST
from sidecar.estimators.base import Estimate
from sidecar.estimators.knowledge import Knowledge
from sidecar.estimators.limits import CACHE, OBJECTIVE, Limit, lowest
from sidecar.estimators.posterior import LogNormal, Posterior
from sidecar.estimators.shapes import candidates, prior
from sidecar.estimators.work import Unit
from sidecar.interval import Interval
from sidecar.settings import Settings

BAND = 1.2816
"""Standard deviations between the middle and either end of an 80 % interval."""

MODEL_ERROR = 0.03
"""Of log X, however much was seen."""

TOKENS_BEYOND_SD = 0.04
"""Error of log X for each factor e between the highest n seen and n*, for tokens: the
time of a step is a line, and what bends requests, their prompts, is counted apart."""

MOST_BY_LIMIT = 1.0
"""Error of log X by that of n*, at the most: where R hardly rises it is anything."""

BENT_BEYOND_SD = 0.12
"""More of it where R bends: two parts in a hundred of R at light load are a quarter of
what lies beyond."""

RECOMPUTED = 0.75
"""Prompt tokens computed in vain for each token generated where the cache is full. vLLM
admits a prompt whenever it fits and preempts it when those before it grow, so as many
are lost as fit into what grows: one for each at the most, and so much in simulation."""

WARM_UP = 5.0
"""Requests that a new worker is slow with: kernels compile, caches fill."""

_TRIAL = tuple(
    Interval(
        end=60.0,
        duration=60.0,
        completions=50.0,
        departures=50.0,
        running=(9.0, 8.0),
        waiting=(0.0, 0.0),
        generation_tokens=tokens,
        prompt_tokens=tokens,
        decode_seconds=None if tokens is None else 480.0,
        decode_tokens=tokens,
        prefill_seconds=tokens,
        kv_usage=0.2,
    )
    for tokens in (None, 5000.0)
)
"""A minute of any worker."""

_QUEUE_ONLY = "the rate seen while requests waited"

_STEP, _LEAST_ELASTICITY = 1.2, 0.05

_JSON = TypeAdapter(Knowledge)


@dataclass(frozen=True)
class CurveEstimator:
    """Capacity from the curve of service time over concurrency.

    Attributes:
        max_concurrency: the sequence limit, requests; None: not known.
        latency_objective: the mean time in service to keep, seconds; None: none.
    """

    max_concurrency: float | None = None
    latency_objective: float | None = None

    def start(self) -> Knowledge:
        """Nothing seen."""
        return Knowledge()

    def step(
        self, state: Knowledge, interval: Interval
    ) -> tuple[Knowledge, Estimate | None]:
        """Learn from the interval, then say what is known.

        An idle interval says nothing about capacity and leaves everything as it was,
        but that the last queue is longer ago.
        A new worker's first requests teach nothing: by them it is judged only as long
        as there are no others.
        """
        if interval.completions == 0 and max(interval.running) == 0:
            aged = state.saturation.aged(interval.duration)
            return state._replace(saturation=aged), None
        state = state.limited_to(self.max_concurrency)
        now, left = state.after(interval), interval.left_before
        if left is None or left >= WARM_UP:
            return now, self.estimate(now.so_far)
        return state, None if state.known.lines else self.estimate(now.so_far)

    def estimate(self, state: Knowledge) -> Estimate | None:
        """What is known; None while it is nothing."""
        known, unit = state.known, state.unit
        tokens, length = unit is not Unit.REQUEST, state.length
        if not known.lines or length is None:
            return self._saturated(state)
        cost = state.prompt_cost
        prompts = (state.prefills.lengths.mean or 0.0) / length
        limit = self._limit(state, length, cost.seconds * prompts)
        if limit.origin == CACHE:
            prompts += RECOMPUTED
        prompt_seconds = cost.seconds * prompts
        at_work = limit.requests
        if unit is Unit.DECODED_TOKEN:
            at_work = _decoding(known.best, at_work, length, prompt_seconds)
        capacity = known.throughput(at_work, prompt_seconds)
        reach = max(0.0, log(limit.requests / state.levels.highest))
        beyond = TOKENS_BEYOND_SD if tokens else prior().beyond_sd
        beyond += BENT_BEYOND_SD * known.bent
        by_prompts = prompt_seconds * capacity.median * cost.log_sd
        capacity = capacity.widened(beyond * reach, by_prompts, MODEL_ERROR)
        method = f"curve at n* = {limit.requests:.0f} ({limit.origin})"
        # The objective caps the concurrency, so what the queue shows lies beyond it.
        saturated = state.saturation.rate(unit)
        if limit.origin.startswith(OBJECTIVE):
            # R is given there, and n what is read off: an error in R is one in n, by
            # how much n changes with R.
            by_limit = capacity.sd / _elasticity(known, at_work)
            capacity = capacity.widened(min(MOST_BY_LIMIT, by_limit))
        elif saturated:
            # Where they differ it is the curve that is wrong: there may be a cliff.
            differ = abs(capacity.mean - saturated.mean)
            capacity = capacity.widened(differ).combined(saturated)
            method += ", with the rate seen while requests waited"
        if tokens:
            capacity = capacity.widened(sqrt(state.lengths.variance)).over(length)
            method += f", at {length:.0f} tokens a request"
        evidence = state.evidence + state.window.completions
        return _estimate(capacity, limit, evidence, method)

    def _saturated(self, state: Knowledge) -> Estimate | None:
        """What the queue shows, where there is nothing else."""
        capacity = state.saturation.requests()
        if capacity is None or self.latency_objective is not None:
            return None
        limit = lowest(state.seen, self.max_concurrency)
        evidence, method = state.saturation.completions, _QUEUE_ONLY
        return _estimate(capacity, limit, evidence, method)

    def to_json(self, state: Knowledge) -> Any:
        """What is worth keeping for another run."""
        return _JSON.dump_python(state.to_keep, mode="json")

    def from_json(self, data: Any) -> Knowledge:
        """What another run learned, as a starting point.

        Raises:
            ValueError: another version of this package wrote it, or somebody else.
        """
        if (number := _absurd(data)) is not None:
            msg = f"{number!r} is no number of a worker"
            raise ValueError(msg)
        kept: Knowledge = _JSON.validate_python(data)
        if len(kept.before) not in {0, len(candidates())}:
            msg = f"{len(kept.before)} scores for {len(candidates())} shapes"
            raise ValueError(msg)
        state = kept.recalled()
        # What cannot be gone on with must show now, not at the next poll.
        for interval in _TRIAL:
            self.step(state, interval)
        found = self.estimate(state)
        if found and not 0 < (found.lower or 0.0) <= (found.upper or 0.0) < LARGEST:
            msg = f"its capacity would be {found.lower} to {found.upper} requests/s"
            raise ValueError(msg)
        return state

    def _limit(self, state: Knowledge, length: float, prompt_seconds: float) -> Limit:
        limit = lowest(state.seen, self.max_concurrency, state.lengths.mean)
        if self.latency_objective is None:
            return limit
        objective = self.latency_objective / length
        allowed = _within(objective, state.known, prompt_seconds)
        if allowed >= limit.requests:
            return limit
        if allowed <= 1.01:
            return Limit(1.0, f"{OBJECTIVE}, shorter than a request alone")
        return Limit(allowed, OBJECTIVE)


def _estimate(
    capacity: LogNormal, limit: Limit, evidence: float, method: str
) -> Estimate:
    return Estimate(
        capacity=capacity.harmonic,
        lower=capacity.quantile(-BAND),
        upper=capacity.quantile(BAND),
        concurrency_limit=limit.requests,
        limited_by=limit.origin,
        evidence=evidence,
        method=method,
    )


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


def _absurd(data: Any) -> object:
    """The first number in JSON that no worker's can be; None: there is none."""
    if isinstance(data, dict | list):
        inner = data.values() if isinstance(data, dict) else data
        return next((odd for each in inner if (odd := _absurd(each)) is not None), None)
    is_odd = isinstance(data, int | float) and not abs(data) <= LARGEST
    return data if is_odd else None


def _elasticity(known: Posterior, concurrency: float) -> float:
    """d log R / d log n, at least a little."""
    more = known.throughput(concurrency * _STEP).mean
    slope = 1 - (more - known.throughput(concurrency).mean) / log(_STEP)
    return max(_LEAST_ELASTICITY, slope)


def _within(objective: float, known: Posterior, prompt_seconds: float) -> float:
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


def build(settings: Settings, max_concurrency: float | None) -> CurveEstimator:
    """The estimator as configured; the setting wins over what was found."""
    return CurveEstimator(
        max_concurrency=settings.max_concurrency or max_concurrency,
        latency_objective=settings.latency_objective,
    )
