"""The concurrency limit n*: the most requests that the worker will run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.interval import Interval

DEFAULT_SEQUENCES = 256.0
"""vLLM's --max-num-seqs on most GPUs, where nothing better is known."""

OBJECTIVE = "latency objective"

_MEMORY = 0.98
_LEAST_USAGE = 1e-3


@dataclass(frozen=True)
class Limit:
    """A limit in requests, and what it comes from in words."""

    requests: float
    origin: str


@dataclass(frozen=True)
class Seen:
    """What the gauges showed of the limits.

    Attributes:
        running, usage: fading sums of running requests and of the fraction of the KV
            cache that they held; their ratio is how many would fill it.
        most: requests running, the highest lately: the limit is not below it.
        waited_at: requests running while others waited, the highest lately; 0: never.
    """

    running: float = 0.0
    usage: float = 0.0
    waited_at: float = 0.0
    most: float = 0.0

    def after(self, interval: Interval) -> Seen:
        """With one more interval."""
        running, usage = self.running, self.usage
        if interval.running[1] > 0 and (interval.kv_usage or 0.0) > _LEAST_USAGE:
            running = _MEMORY * running + interval.running[1]
            usage = _MEMORY * usage + (interval.kv_usage or 0.0)
        waited_at = self.waited_at
        if interval.queued:
            waited_at = max(_MEMORY * waited_at, *interval.running)
        most = max(_MEMORY * self.most, *interval.running)
        return Seen(running, usage, waited_at, most)

    def limits(self) -> Iterable[Limit]:
        """The limits that the gauges show."""
        if self.usage > 0:
            yield Limit(self.running / self.usage, "KV cache")
        if self.waited_at > 0:
            yield Limit(self.waited_at, "requests wait there")


def lowest(seen: Seen, sequences: float | None) -> Limit:
    """The limit that binds: at least one request, and what was seen to run.

    Args:
        sequences: the sequence limit where it is known, requests.
    """
    known = [*seen.limits()]
    if sequences is not None:
        known.append(Limit(sequences, "sequence limit"))
    elif not any(limit.origin == "requests wait there" for limit in known):
        known.append(Limit(DEFAULT_SEQUENCES, "vLLM's default sequence limit"))
    limit = min(known, key=lambda each: each.requests)
    return Limit(max(1.0, limit.requests, seen.most), limit.origin)
