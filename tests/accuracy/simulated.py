"""Simulated workers, poll by poll, read off their pages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from sidecar import engines
from sidecar.exposition import Page
from sidecar.interval import Interval, between
from sidecar.simulator import PRESETS, Engine, OpenLoop, measure, render
from sidecar.simulator.model import Mix
from tests.accuracy.runs import Run, run
from tests.accuracy.workloads import POLL, wander

DIALECT = engines.load("vllm")[0]

Strip = Callable[[Interval], Interval]
"""Takes away what an engine does not export."""


def everything(interval: Interval) -> Interval:
    """vLLM's page: tokens, and the time between them that the engine sums up."""
    return interval


def tokens(interval: Interval) -> Interval:
    """An engine that counts tokens, and no more."""
    return replace(
        interval, decode_seconds=None, decode_tokens=None, prefill_seconds=None
    )


def requests(interval: Interval) -> Interval:
    """A counter and a gauge, and no more."""
    return replace(
        tokens(interval),
        generation_tokens=None,
        prompt_tokens=None,
        cached_tokens=None,
        preemptions=None,
        kv_usage=None,
        kv_tokens=None,
        kv_longest=None,
    )


@dataclass(frozen=True)
class Work:
    """Load on a preset: offered between two shares of its capacity, for so long."""

    preset: str
    low: float
    high: float
    minutes: float
    seed: int
    strip: Strip = everything

    @property
    def capacity(self) -> float:
        """The truth, requests/s."""
        preset = PRESETS[self.preset]
        return measure(preset.shape, preset.mix).capacity

    @property
    def limit(self) -> float:
        """The sequence limit, as on the command line."""
        return PRESETS[self.preset].shape.max_num_seqs

    def run(self) -> Run:
        """All methods on it."""
        return run(map(self.strip, self.intervals()), self.limit, self.capacity)

    def intervals(self) -> Iterator[Interval]:
        """Poll by poll."""
        rng = random.Random(f"{self.preset} {self.low} {self.high} {self.seed}")
        polls = int(self.minutes * 60 / POLL)
        truth = self.capacity
        rates = [truth * share for share in wander(self.low, self.high, polls, rng)]
        return intervals(self.preset, rates, rng, lambda _: PRESETS[self.preset].mix)


def intervals(
    name: str, rates: list[float], rng: random.Random, mix: Callable[[int], Mix]
) -> Iterator[Interval]:
    """Polls of a preset under Poisson arrivals.

    Args:
        rates: requests/s offered, for each poll.
        mix: of the requests at each poll.
    """
    engine = Engine(PRESETS[name].shape, f"simulated/{name}")

    def rate(at: float) -> float:
        return rates[min(int(at / POLL), len(rates) - 1)]

    load = OpenLoop(mix(0), rng, rate, peak=max(rates))

    def samples() -> Iterator[Page]:
        for i in range(len(rates) + 1):
            load.mix = mix(i)
            load.feed(engine, POLL * i)
            yield Page(render(engine))

    read = (DIALECT.read(p, "vllm:", POLL * i) for i, p in enumerate(samples()))
    found = (between(earlier, later) for earlier, later in pairwise(read))
    return (each for each in found if each)
