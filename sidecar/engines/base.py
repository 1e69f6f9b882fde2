"""What a dialect is: which families of a page mean what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sidecar.errors import (
    MalformedSample,
    MissingCounter,
    MissingGauge,
    NoSamples,
)
from sidecar.exposition import Labels, Page
from sidecar.sample import Sample, Series

GENERATION_TOKENS = "generation_tokens"
PROMPT_TOKENS = "prompt_tokens"
CACHED_TOKENS = "cached_tokens"
PREEMPTIONS = "preemptions"
DECODE_SECONDS = "decode_seconds"
DECODE_TOKENS = "decode_tokens"
PREFILL_SECONDS = "prefill_seconds"

_PLACEHOLDERS = frozenset({"", "undefined", "None", "unknown"})


@dataclass(frozen=True)
class Engine:
    """A dialect. Names are written without prefix; of several, the first found counts.

    Attributes:
        prefixes: what may stand before every name; exactly one contributes.
        finished: counter of requests that left the engine.
        running, waiting, kv_usage: gauges.
        counters: our name for a further counter -> its names on the page.
        sleep_state: enum gauge whose ``awake`` series is 0 while the engine sleeps.
        cache_config: gauge whose labels hold the KV cache's size.
        markers: beginnings of names of which one must be on the page.
        copies: labels that tell apart copies of one number (processes, ranks), of
            which the largest counts; series that differ otherwise are summed.
    """

    name: str
    prefixes: tuple[str, ...]
    finished: tuple[str, ...]
    running: tuple[str, ...]
    waiting: tuple[str, ...] = ()
    kv_usage: tuple[str, ...] = ()
    counters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sleep_state: str | None = None
    cache_config: str | None = None
    markers: tuple[str, ...] = ()
    copies: frozenset[str] = frozenset({"pid"})

    def prefix_on(self, page: Page) -> str | None:
        """The prefix under which the page speaks this dialect; None: it does not."""
        if self.markers and not any(map(page.mentions, self.markers)):
            return None
        needed = (*self.finished, *self.running)
        for prefix in self.prefixes:
            if any(page.has(prefix + name) for name in needed):
                return prefix
        for prefix in self.prefixes:
            if any(page.declares(prefix + name) for name in needed):
                return prefix
        return None

    def names(self, prefix: str) -> list[str]:
        """Every sample name that ``read`` looks for, for a server-side filter."""
        groups = [self.finished, self.running, self.waiting, self.kv_usage]
        groups += self.counters.values()
        single = [name for name in (self.sleep_state, self.cache_config) if name]
        created = [_created(name) for name in self.finished]
        wanted = [name for group in groups for name in group] + single + created
        return [*(prefix + name for name in dict.fromkeys(wanted)), _PROCESS_START]

    def read(self, page: Page, prefix: str, at: float) -> Sample:
        """The sample of a page.

        Raises:
            NoSamples, MissingCounter, MissingGauge, MalformedSample
        """
        page.look_for(tuple(self.names(prefix)))
        departures = self._found(page, prefix, self.finished)
        _refuse_nonsense(page, prefix, self.finished + self.running + self.waiting)
        finished = self._merged(departures)
        running = self._first(page, prefix, self.running)
        if not finished and not running:
            raise NoSamples(f"{self.name}: no request metric has a sample yet")
        if not finished and not any(page.declares(prefix + n) for n in self.finished):
            raise MissingCounter(self._missing(page, prefix, self.finished, "finished"))
        if not running and not any(page.declares(prefix + n) for n in self.running):
            raise MissingGauge(self._missing(page, prefix, self.running, "running"))
        waiting = self._first(page, prefix, self.waiting)
        usage = self._first(page, prefix, self.kv_usage)
        read = {
            ours: self._first(page, prefix, theirs)
            for ours, theirs in self.counters.items()
        }
        return Sample(
            at=at,
            engine=self.name,
            model_name=_model_name([*finished, *running]),
            running=sum(running.values()),
            finished=finished,
            waiting=sum(waiting.values()) if waiting else None,
            counters={name: series for name, series in read.items() if series},
            kv_usage=sum(usage.values()) / len(usage) if usage else None,
            kv_tokens=self._of_cache(page, prefix, _cache_tokens),
            kv_longest=self._of_cache(page, prefix, _longest_requests),
            started_at=self._started_at(page, prefix),
            sleeping=self._sleeping(page, prefix),
            copies=len(departures) - len(finished),
        )

    def _first(self, page: Page, prefix: str, names: tuple[str, ...]) -> Series:
        return self._merged(self._found(page, prefix, names))

    def _found(
        self, page: Page, prefix: str, names: tuple[str, ...]
    ) -> list[tuple[Labels, float]]:
        for name in names:
            found = page.samples(prefix + name)
            if found and all(0 <= value <= LARGEST for _, value in found):
                return found
        return []

    def _merged(self, samples: list[tuple[Labels, float]]) -> Series:
        merged: dict[Labels, float] = {}
        for labels, value in samples:
            key = _without(labels, self.copies)
            merged[key] = max(value, merged.get(key, value))
        return merged

    def _missing(
        self, page: Page, prefix: str, names: tuple[str, ...], what: str
    ) -> str:
        looked_for = " or ".join(prefix + name for name in names) or "one"
        near = [n for n in page.names() if n.startswith(prefix) and "_bucket" not in n]
        msg = f"{self.name}: no counter of {what} requests"
        if what == "running":
            msg = f"{self.name}: no gauge of running requests"
        return f"{msg} (looked for {looked_for}; the page has {_listed(near)})"

    def _of_cache(
        self, page: Page, prefix: str, read: Callable[[Mapping[str, str]], float]
    ) -> float | None:
        """What the label sets say of the KV cache, summed over engines."""
        if self.cache_config is None:
            return None
        sizes = []
        for labels in self._merged(page.samples(prefix + self.cache_config)):
            try:
                size = read(dict(labels))
            except (KeyError, ValueError):
                continue
            if 0 < size <= LARGEST:
                sizes.append(size)
        return sum(sizes) if sizes else None

    def _started_at(self, page: Page, prefix: str) -> float | None:
        for name in (_PROCESS_START, *(prefix + _created(n) for n in self.finished)):
            if found := page.samples(name):
                return min(value for _, value in found)
        return None

    def _sleeping(self, page: Page, prefix: str) -> bool:
        if self.sleep_state is None:
            return False
        awake = [
            value
            for labels, value in page.samples(prefix + self.sleep_state)
            if ("sleep_state", "awake") in labels
        ]
        return bool(awake) and not any(awake)


LARGEST = 1e15
"""No counter or gauge of a worker gets there; more is another thing than it seems."""


def _refuse_nonsense(page: Page, prefix: str, names: tuple[str, ...]) -> None:
    """A needed number that is none must not pass for zero, nor for a restart.

    Raises:
        MalformedSample: it is NaN, infinite, negative or absurdly large.
    """
    for name in names:
        found = page.samples(prefix + name)
        odd = [value for _, value in found if not 0 <= value <= LARGEST]
        if odd or len(found) < page.lines(prefix + name):
            value = f"{odd[0]:g}" if odd else "not a number"
            msg = f"{prefix}{name} is {value}, which no worker can mean"
            raise MalformedSample(msg)


_PROCESS_START = "process_start_time_seconds"


# The same label sets come at every poll.
@lru_cache(maxsize=1024)
def _without(labels: Labels, names: frozenset[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in names)


def _created(counter: str) -> str:
    return counter.removesuffix("_total").removesuffix("_count") + "_created"


def _model_name(series: list[Labels]) -> str:
    for labels in series:
        for key, value in labels:
            if key == "model_name" and value not in _PLACEHOLDERS:
                return value
    return ""


def _cache_tokens(labels: Mapping[str, str]) -> float:
    if labels.get("kv_cache_size_tokens", "None") != "None":
        return float(labels["kv_cache_size_tokens"])
    return float(labels["num_gpu_blocks"]) * float(labels["block_size"])


def _longest_requests(labels: Mapping[str, str]) -> float:
    return float(labels["kv_cache_max_concurrency"])


def _listed(names: list[str], most: int = 6) -> str:
    shown = ", ".join(names[:most]) or "none of this engine"
    return shown + (", …" if len(names) > most else "")
