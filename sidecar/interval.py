"""The difference of two samples of one worker."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.engines.base import (
    CACHED_TOKENS,
    DECODE_SECONDS,
    DECODE_TOKENS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFILL_SECONDS,
    PROMPT_TOKENS,
)
from sidecar.exposition import Labels
from sidecar.sample import Sample, Series, is_completion

_FEW, _FEW_OF_RUNNING = 3.0, 0.25
"""So many requests, and this fraction of those that run, may arrive in one step."""

_ROOM = 0.5
"""Fraction of the KV cache in use below which it holds no request up."""

_FEW_PREEMPTIONS = 0.05
"""For each completion: so many lose no throughput worth mentioning."""

_SAME_START = 1.0
"""Seconds by which one process start may differ between two pages (rounding)."""


@dataclass(frozen=True)
class Interval:
    """What happened between two polls.

    Attributes:
        end: monotonic time of the later sample, seconds.
        duration: seconds, from the monotonic clock, always positive.
        completions: requests answered; departures: requests that left in any way.
        generation_tokens, prompt_tokens, preemptions: None where not exported.
        cached_tokens: prompt tokens that a prefix cache saved computing.
        decode_seconds, decode_tokens: tokens after a request's first, and the summed
            time since the token before: the area under the requests that decode.
        prefill_seconds: summed time of the finished requests from their first
            schedule to their first token; None where not exported.
        left_before: requests that had left the worker before, since it began.
        running, waiting: the gauges at both ends, requests.
        kv_usage, kv_tokens, kv_longest: of the later sample, see ``Sample``.
        sequence_limit: the most requests it was told to run; None: not known.
    """

    end: float
    duration: float
    completions: float
    departures: float
    running: tuple[float, float]
    waiting: tuple[float, float]
    generation_tokens: float | None = None
    cached_tokens: float | None = None
    prompt_tokens: float | None = None
    preemptions: float | None = None
    decode_seconds: float | None = None
    decode_tokens: float | None = None
    prefill_seconds: float | None = None
    left_before: float | None = None
    kv_usage: float | None = None
    kv_tokens: float | None = None
    kv_longest: float | None = None
    sequence_limit: float | None = None

    @property
    def queued(self) -> bool:
        """Whether requests wait because there is no room for them.

        The gauges dip between engine steps, so one reading of a queue proves nothing.
        Some engines (Dynamo's mocker) count an arrival as waiting until their next
        step: a few that wait beside free slots and a free KV cache are no queue. Many
        are: long prompts queue for the step's token budget.
        """
        waiting = min(self.waiting)
        if waiting <= 0:
            return False
        many = waiting > _FEW + _FEW_OF_RUNNING * max(self.running)
        crowded = self.kv_usage is None or self.kv_usage >= _ROOM
        present = max(map(sum, zip(self.running, self.waiting, strict=True)))
        slots_taken = self.sequence_limit is None or present > self.sequence_limit
        return many or crowded or slots_taken

    @property
    def preempted(self) -> bool:
        """Whether requests lost their place in the KV cache, and not just one."""
        most = _FEW_PREEMPTIONS * max(1.0, self.completions)
        return (self.preemptions or 0.0) > most

    @property
    def mean_running(self) -> float:
        """Area under the running gauge over the duration (trapezium), requests."""
        return sum(self.running) / 2

    @property
    def growth(self) -> float:
        """Of the requests running, from one end to the other."""
        return self.running[1] - self.running[0]

    @property
    def growth_by_arrivals(self) -> float:
        """Growth of those that run, where none of them lost its place."""
        return 0.0 if self.preempted else self.growth

    @property
    def arrivals(self) -> float:
        """Flow balance: departures plus the growth of running and waiting, requests."""
        queue = self.waiting[1] - self.waiting[0]
        return max(0.0, self.departures + self.growth + queue)

    @property
    def moved(self) -> bool:
        """Whether any counter of work moved."""
        tokens = (self.generation_tokens or 0.0) + (self.prompt_tokens or 0.0)
        return self.departures > 0 or tokens > 0


def between(earlier: Sample, later: Sample) -> Interval | None:
    """The interval between two samples; None where the worker began anew in between.

    A series born in between started from zero. A series that fell or vanished, a new
    process start, and another model are a new beginning: what was counted before it
    and lost cannot be told.
    """
    duration = later.at - earlier.at
    if duration <= 0 or _began_anew(earlier, later):
        return None
    finished = _deltas(earlier.finished, later.finished)
    deltas = {
        name: _deltas(earlier.counters.get(name, {}), series)
        for name, series in later.counters.items()
        if name in earlier.counters
    }
    if finished is None or None in deltas.values():
        return None
    totals = {name: sum(series.values()) for name, series in deltas.items() if series}
    return Interval(
        end=later.at,
        duration=duration,
        completions=sum(v for labels, v in finished.items() if is_completion(labels)),
        departures=sum(finished.values()),
        running=(earlier.running, later.running),
        waiting=(earlier.waiting or 0.0, later.waiting or 0.0),
        generation_tokens=totals.get(GENERATION_TOKENS),
        prompt_tokens=totals.get(PROMPT_TOKENS),
        cached_tokens=totals.get(CACHED_TOKENS),
        preemptions=totals.get(PREEMPTIONS),
        decode_seconds=totals.get(DECODE_SECONDS),
        decode_tokens=totals.get(DECODE_TOKENS),
        prefill_seconds=totals.get(PREFILL_SECONDS),
        left_before=earlier.finished_total,
        kv_usage=later.kv_usage,
        kv_tokens=later.kv_tokens,
        kv_longest=later.kv_longest,
    )


def _began_anew(earlier: Sample, later: Sample) -> bool:
    if (earlier.engine, earlier.model_name) != (later.engine, later.model_name):
        return True
    if earlier.started_at is None or later.started_at is None:
        return False
    return abs(later.started_at - earlier.started_at) > _SAME_START


def _deltas(earlier: Series, later: Series) -> dict[Labels, float] | None:
    """Growth of each series; None when one fell or vanished."""
    if any(later.get(labels, -1.0) < value for labels, value in earlier.items()):
        return None
    return {labels: value - earlier.get(labels, 0.0) for labels, value in later.items()}
