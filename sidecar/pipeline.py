"""One worker's way from samples to values: the pure part, without I/O or clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sidecar import estimators
from sidecar.estimators.base import Estimate, Estimator, Learning
from sidecar.estimators.mix import Ratio
from sidecar.flow import FEW_DEPARTURES, Flow
from sidecar.interval import Interval, between
from sidecar.reading import Values
from sidecar.sample import Sample
from sidecar.settings import Settings
from sidecar.states import Quiet, State, judge

FIRST_REQUEST = 120.0
"""Seconds that the first request may take, where only finished ones are counted."""

DRAIN = 300.0
"""Seconds in which a queue is to be gone: about what a new worker takes to load, and
sooner it cannot help."""

BEGUN = Flow(fewest=FEW_DEPARTURES)
"""A worker that was idle, or is new."""

Recall = Callable[[Estimator[Any], Sample], Learning[Any] | None]


@dataclass
class Pipeline:
    """Feed it samples in order; each gives the values to publish.

    Attributes:
        estimator: the method, see ``estimators.base``.
        multiplier, minimum: the signal is max(minimum, capacity × multiplier).
        sequence_limit: the most requests it was told to run; None: not known.
        longest_gap: seconds between two good samples after which the earlier one is
            no baseline any more.
        recall: what was learned of such a worker before; None: nothing.
    """

    estimator: Estimator[Any]
    multiplier: float = 1.0
    minimum: float = 0.0
    sequence_limit: float | None = None
    longest_gap: float = 60.0
    recall: Recall | None = None
    previous: Sample | None = field(default=None, init=False)
    learning: Learning[Any] | None = field(default=None, init=False)
    _flow: Flow = field(default_factory=Flow, init=False)
    _busy: Flow = field(default=BEGUN, init=False)
    _quiet: Quiet = field(default_factory=Quiet, init=False)
    _service: Ratio = field(default_factory=Ratio, init=False)

    @classmethod
    def configured(
        cls,
        settings: Settings,
        found_limit: float | None,
        recall: Recall | None = None,
    ) -> Pipeline:
        """A pipeline as configured.

        Args:
            found_limit: the sequence limit where the engine's command line shows it.
        """
        return cls(
            estimators.build(settings, found_limit),
            multiplier=settings.multiplier,
            minimum=settings.minimum,
            sequence_limit=settings.max_concurrency or found_limit,
            longest_gap=settings.longest_gap,
            recall=recall,
        )

    @property
    def estimate(self) -> Estimate | None:
        """The latest estimate; it is held while the worker idles."""
        return self.learning.estimate if self.learning else None

    def use(self, estimator: Estimator[Any]) -> None:
        """Go on with another estimator of the same kind, and with what was learned."""
        self.estimator = estimator
        if self.learning:
            known = self.learning
            self.learning = Learning(estimator, known.state, known.estimate)

    def advance(self, sample: Sample) -> Values:
        """The values after one more sample."""
        if self.previous and _is_another_worker(self.previous, sample):
            self.previous = self.learning = None
            self._service = Ratio()
        interval = self._since_previous(sample)
        self.previous = sample
        if sample.sleeping:
            self._flow, self._busy, self._quiet = Flow(), BEGUN, Quiet()
            return Values(State.SLEEPING)
        if interval is None:
            self._flow, self._busy, self._quiet = Flow(), BEGUN, Quiet()
            return Values(State.BASELINE)
        self._flow = self._flow.after(interval)
        # Little's law, R = n·T / k.
        area = interval.mean_running * interval.duration
        self._service = self._service.after(
            area, interval.completions, interval.duration
        )
        service_time = self._service.value
        if service_time is None and interval.generation_tokens is None:
            service_time = FIRST_REQUEST
        state, self._quiet = judge(self._quiet, interval, service_time)
        self._busy = BEGUN if state is State.IDLE else self._busy.after(interval)
        if state is not State.STALLED:
            learning = self.learning or self._begin(sample)
            self.learning = learning.after(interval)
        return self._values(state, interval)

    def _begin(self, sample: Sample) -> Learning[Any]:
        known = self.recall(self.estimator, sample) if self.recall else None
        return known or Learning.begin(self.estimator)

    def _since_previous(self, sample: Sample) -> Interval | None:
        if self.previous is None or self.previous.sleeping:
            return None
        if sample.at - self.previous.at > self.longest_gap:
            return None
        interval = between(self.previous, sample)
        return interval and replace(interval, sequence_limit=self.sequence_limit)

    def _values(self, state: State, interval: Interval) -> Values:
        estimate = self.estimate
        utilization = self._utilization(estimate, state)
        if state is State.STALLED:
            return Values(state, utilization=utilization)
        values = Values(
            state=state,
            utilization=utilization,
            throughput=self._flow.throughput,
            demand=self._flow.demand,
            running=interval.running[1],
            waiting=interval.waiting[1],
        )
        if estimate is None:
            return values
        return replace(
            values,
            published=max(self.minimum, estimate.capacity * self.multiplier),
            capacity=estimate.capacity,
            capacity_lower=estimate.lower,
            capacity_upper=estimate.upper,
            concurrency_limit=estimate.concurrency_limit,
        )

    def _utilization(self, estimate: Estimate | None, state: State) -> float | None:
        """max((D + waiting / DRAIN) / C, min(1, (running + waiting) / n*)).

        0 when idle, None when unknown, and at least 1 when saturated. The rates are
        those since the worker was last idle: with the pauses in them, bursts would
        count for less than they are, for an autoscaler averages the zeros as well.

        Requests that wait make a worker full; how far above full it is, the demand
        says, and the rate at which the queue would be gone in time. Counted in batches,
        (running + waiting) / n* without a bound, a queue makes an autoscaler ask for as
        many workers as would do all of it at once, again and again while those it asked
        for are still loading.
        """
        if state is State.IDLE:
            return 0.0
        if estimate is None or estimate.capacity <= 0:
            return None
        flow, limit = self._busy, estimate.concurrency_limit
        least = 1.0 if state is State.SATURATED else 0.0
        by_rate = (flow.demand + flow.waiting / DRAIN) / estimate.capacity
        if not limit:
            return max(least, by_rate)
        filled = min(1.0, flow.present / limit)
        return max(least, filled, by_rate if flow.is_settled else 0.0)


def _is_another_worker(earlier: Sample, later: Sample) -> bool:
    """Whether what was learned says nothing about the later sample's worker."""
    kept = (earlier.engine, earlier.model_name) == (later.engine, later.model_name)
    sizes = (earlier.kv_tokens, later.kv_tokens)
    return not kept or (None not in sizes and sizes[0] != sizes[1])
