"""The truth about a simulated worker, measured by saturating a copy of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

from sidecar.simulator.engine import Engine
from sidecar.simulator.load import ClosedLoop
from sidecar.simulator.model import Mix, Shape

WARM_UP_TURNS = 10
"""Turns of the whole batch to skip: it begins in step, all requests at one time."""

COMPLETIONS = 30_000
"""Requests measured: lengths of cv 0.6 leave the rate 0.6 / √30000 = 0.35 % off."""


@dataclass(frozen=True)
class Truth:
    """A worker at saturation.

    Attributes:
        capacity: completions per second.
        concurrency: requests running, mean over time: the limit really reached.
        service_s: mean seconds from first schedule to last token.
        tokens_per_s: generated tokens per second.
        preemptions: preemptions per completion.
    """

    capacity: float
    concurrency: float
    service_s: float
    tokens_per_s: float
    preemptions: float


@lru_cache(maxsize=64)
def measure(shape: Shape, mix: Mix, *, seed: int = 0) -> Truth:
    """Run a worker with twice the clients it has slots for, and measure it.

    At every moment at least `max_num_seqs` requests wait. Cached: the same arguments
    are simulated once in a process.
    """
    engine = Engine(shape, shape.name)
    clients = ClosedLoop(mix, random.Random(seed), 2 * shape.max_num_seqs)
    _complete(engine, clients, WARM_UP_TURNS * shape.max_num_seqs)
    start, before = engine.now, engine.counters
    done, tokens = before.completions, before.generation_tokens
    area, preemptions = before.running_seconds, before.num_preemptions
    service = before.request_inference_time_seconds.sum
    _complete(engine, clients, done + COMPLETIONS)
    after, seconds = engine.counters, engine.now - start
    completions = after.completions - done
    return Truth(
        capacity=completions / seconds,
        concurrency=(after.running_seconds - area) / seconds,
        service_s=(after.request_inference_time_seconds.sum - service) / completions,
        tokens_per_s=(after.generation_tokens - tokens) / seconds,
        preemptions=(after.num_preemptions - preemptions) / completions,
    )


def true_capacity(shape: Shape, mix: Mix, *, seed: int = 0) -> float:
    """Return the requests per second that the worker sustains at saturation."""
    return measure(shape, mix, seed=seed).capacity


def true_limit(shape: Shape, mix: Mix, *, seed: int = 0) -> float:
    """Return the requests that run, on average, at saturation."""
    return measure(shape, mix, seed=seed).concurrency


def _complete(engine: Engine, clients: ClosedLoop, completions: int) -> None:
    """Drive an engine until it has finished that many requests."""
    while engine.counters.completions < completions:
        clients.feed(engine, engine.now + 10.0)
