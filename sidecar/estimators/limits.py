"""The concurrency limit n*: the most requests that the worker will run."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import NamedTuple

from sidecar.estimators.mix import VARIATION, Ratio
from sidecar.interval import Interval

DEFAULT_SEQUENCES = 256.0
"""vLLM's --max-num-seqs on most GPUs, where nothing better is known."""

CACHE, OBJECTIVE = "KV cache", "latency objective"
WAITED = "requests wait there"

_MEMORY = 250.0
"""Seconds after which an old reading weighs 1/e."""

_QUEUE_SECONDS = 10.0
"""A queue that lasts no longer is a burst, and shows no limit."""

_LEAST_USAGE = 1e-3
_ENOUGH_READINGS = 24
_MOST_HELD = 3.0
"""Of what a request's tokens take: it holds no more, whatever a gauge says."""
_LATELY = 0.1
_FORGET = 900.0
"""Seconds in which a limit that was only seen rises by e when it is not seen again:
requests may have become shorter."""


class Limit(NamedTuple):
    """A limit in requests, and what it comes from in words."""

    requests: float
    origin: str


class Seen(NamedTuple):
    """What the page showed of the limits.

    Attributes:
        running, usage: fading sums of running requests and of the fraction of the KV
            cache that they held; their ratio is how many would fill it.
        readings: of both, since requests were last found to have become others.
        most: requests running without preemption, the highest lately: the limit is not
            below it.
        queued_for: seconds that requests have been waiting.
        waited_at: requests running while others waited, the highest lately; 0: never.
        fresh: the same, rising since then.
        preempted_at: requests running while some were preempted, lately; 0: never.
        kv_tokens, kv_longest: size of the KV cache, see ``Sample``; 0: not known.
        prompt: prompt tokens per request.
    """

    running: float = 0.0
    usage: float = 0.0
    readings: int = 0
    queued_for: float = 0.0
    waited_at: float = 0.0
    fresh: float = 0.0
    preempted_at: float = 0.0
    most: float = 0.0
    kv_tokens: float = 0.0
    kv_longest: float = 0.0
    prompt: Ratio = Ratio()

    def after(self, interval: Interval) -> Seen:
        """With one more interval."""
        running, usage, readings = self.running, self.usage, self.readings
        keep = exp(-interval.duration / _MEMORY)
        rise = exp(interval.duration / _FORGET)
        if interval.running[1] > 0 and _LEAST_USAGE < (interval.kv_usage or 0.0) <= 1:
            running = keep * running + interval.running[1]
            usage = keep * usage + (interval.kv_usage or 0.0)
            readings += 1
        waited_at, preempted_at = self.waited_at, self.preempted_at
        fresh, queued_for = self.fresh * rise, 0.0
        if interval.queued:
            queued_for = self.queued_for + interval.duration
            if queued_for >= _QUEUE_SECONDS:
                waited_at = max(keep * waited_at, *interval.running)
                fresh = waited_at
        most = keep * self.most
        if interval.preempted:
            now = interval.mean_running
            preempted_at += (now - preempted_at) * (_LATELY if preempted_at else 1.0)
        else:
            most, preempted_at = max(most, *interval.running), preempted_at * rise
        return Seen(
            running,
            usage,
            readings,
            queued_for,
            waited_at,
            fresh,
            preempted_at,
            most,
            interval.kv_tokens or self.kv_tokens,
            interval.kv_longest or self.kv_longest,
            self.prompt.after(
                interval.prompt_tokens, interval.completions, interval.duration
            ),
        )

    def limits(self, length: float | None, *, told: bool) -> Iterable[Limit]:
        """The limits that the page shows.

        Args:
            length: tokens generated per request; None: not known.
            told: whether the sequence limit is known. Then requests that wait below it
                waited for something else, which need not last.
        """
        if holds := self._cache_holds(length):
            yield Limit(max(holds, self.kv_longest), CACHE)
        if self.waited_at > 0 and not told:
            yield Limit(self.waited_at, WAITED)
        elif self.fresh > 0:
            yield Limit(self.fresh, WAITED)
        if self.preempted_at > 0:
            yield Limit(self.preempted_at, "preemptions")

    def unlimited(self) -> Seen:
        """Where the worker has got another limit."""
        return self._replace(waited_at=0.0, fresh=0.0, most=0.0)

    def of_others(self) -> Seen:
        """Where requests have become others: they hold another part of the cache."""
        return self._replace(running=0.0, usage=0.0, readings=0, preempted_at=0.0)

    def _cache_holds(self, length: float | None) -> float:
        """Requests that fill the KV cache; 0: not known.

        As measured, and before there are readings enough by its size. A request met at
        a random moment is a long one, in proportion to its length, and has half of its
        output behind it: (1 + cv²)/2 of the mean (renewal theory).
        """
        measured = self.running / self.usage if self.usage > 0 else 0.0
        if not length or not self.prompt.value or not self.kv_tokens:
            return measured
        met = self.prompt.value + length * (1 + VARIATION**2) / 2
        by_size = self.kv_tokens / met
        if not measured:
            return by_size
        measured = max(measured, by_size / _MOST_HELD)
        share = min(1.0, self.readings / _ENOUGH_READINGS)
        return float(by_size ** (1 - share) * measured**share)


def lowest(seen: Seen, sequences: float | None, length: float | None = None) -> Limit:
    """The limit that binds: at least one request, and what was seen to run.

    Args:
        sequences: the sequence limit where it is known, requests.
        length: tokens generated per request; None: not known.
    """
    known = [*seen.limits(length, told=sequences is not None)]
    if sequences is not None:
        known.append(Limit(sequences, "sequence limit"))
    elif not any(limit.origin in _FOUND for limit in known):
        known.append(Limit(DEFAULT_SEQUENCES, "vLLM's default sequence limit"))
    limit = min(known, key=lambda each: each.requests)
    return Limit(max(1.0, limit.requests, seen.most), limit.origin)


_FOUND = (WAITED, "preemptions")
"""Where the worker itself showed its limit, none is assumed."""
