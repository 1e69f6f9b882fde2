"""Samples of a simulated worker, poll by poll, read off its page."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sidecar import engines
from sidecar.exposition import Page
from sidecar.sample import Sample
from sidecar.simulator import PRESETS, Engine, OpenLoop, measure, render
from tests.accuracy.workloads import POLL, wander

DIALECT = engines.load("vllm")[0]


def samples(
    name: str, low: float, high: float, minutes: float, seed: int
) -> Iterator[Sample]:
    """Polls of a preset whose offered load wanders between two shares of capacity."""
    preset = PRESETS[name]
    truth = measure(preset.shape, preset.mix).capacity
    rng = random.Random(f"{name} {low} {high} {seed}")
    polls = int(minutes * 60 / POLL)
    rates = [truth * share for share in wander(low, high, polls, rng)]
    engine = Engine(preset.shape, f"simulated/{name}")

    def rate(at: float) -> float:
        return rates[min(int(at / POLL), polls - 1)]

    load = OpenLoop(preset.mix, rng, rate, peak=max(rates))
    for i in range(polls + 1):
        load.feed(engine, POLL * i)
        yield DIALECT.read(Page(render(engine)), "vllm:", POLL * i)
