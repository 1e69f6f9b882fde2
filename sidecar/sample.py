"""The numbers of one scrape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.exposition import Labels

Series = Mapping[Labels, float]
"""One cumulative value for each label set."""

FAILED = frozenset({"abort", "error"})
"""Finish reasons that are departures but not completions; an unknown reason is one."""


@dataclass(frozen=True)
class Sample:
    """What one worker's page said at one time.

    Attributes:
        at: monotonic time at which the body had arrived, seconds.
        running, waiting: requests, summed over the worker's engines.
        finished: requests that left, by label set (with the finish reason).
        counters: further cumulative values by our own name, see ``engines.base``;
            a name is absent where the worker does not export it.
        kv_usage: fraction of the KV cache in use, mean over engines.
        kv_tokens: size of the KV cache, tokens, summed over engines.
        kv_longest: requests of the longest length that it holds, summed likewise.
        started_at: when the worker's process or its counters began, Unix seconds.
        copies: samples that repeated another one's labels and were not counted twice.
    """

    at: float
    engine: str
    model_name: str
    running: float
    finished: Series
    waiting: float | None = None
    counters: Mapping[str, Series] = field(default_factory=dict)
    kv_usage: float | None = None
    kv_tokens: float | None = None
    kv_longest: float | None = None
    started_at: float | None = None
    sleeping: bool = False
    copies: int = 0

    def total(self, counter: str) -> float | None:
        """A counter summed over its series; None where the worker has none."""
        series = self.counters.get(counter)
        return None if series is None else sum(series.values())

    @property
    def finished_total(self) -> float:
        """Requests that left, whatever the reason."""
        return sum(self.finished.values())

    @property
    def completed_total(self) -> float:
        """Requests that left with an answer."""
        return sum(v for labels, v in self.finished.items() if is_completion(labels))


def is_completion(labels: Labels) -> bool:
    """Whether a series of the finished counter counts answered requests."""
    return not any(
        key == "finished_reason" and value in FAILED for key, value in labels
    )
