"""Load on a simulated worker: open loop (Poisson arrivals) and closed loop (clients).

A load feeds an engine: it submits what arrives and advances the engine, in calls of
any length. The requests do not depend on how the time is cut into calls.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Protocol

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import Mix


class Load(Protocol):
    """What drives an engine."""

    def feed(self, engine: Engine, until: float) -> None:
        """Submit what arrives up to `until` and advance the engine to it."""


class OpenLoop:
    """Poisson arrivals of a rate that changes in time, whatever the worker does.

    By thinning (Lewis and Shedler, 1979): candidates come at the constant rate `peak`
    and the one at time t is kept with probability rate(t) / peak.
    """

    def __init__(
        self,
        mix: Mix,
        rng: random.Random,
        rate: Callable[[float], float],
        *,
        peak: float,
        start: float = 0.0,
    ) -> None:
        """Begin at `start` seconds of the engine's time.

        Args:
            mix: lengths of the requests; may be replaced at any time.
            rng: the only source of chance.
            rate: arrivals per second at a time.
            peak: the highest value of `rate`, above 0.
            start: no request arrives earlier.
        """
        self.mix = mix
        self._rng = rng
        self._rate = rate
        self._peak = peak
        self._candidate = start + rng.expovariate(peak)

    def feed(self, engine: Engine, until: float) -> None:
        """Submit the arrivals up to `until` and advance the engine to it."""
        while self._candidate <= until:
            if self._rng.random() * self._peak < self._rate(self._candidate):
                engine.submit(self._candidate, *self.mix.draw(self._rng))
            self._candidate += self._rng.expovariate(self._peak)
        engine.advance(until)


class ClosedLoop:
    """Clients that each send the next request `think_s` after the last is done."""

    def __init__(
        self, mix: Mix, rng: random.Random, clients: int, *, think_s: float = 0.0
    ) -> None:
        """Set the number of clients; it may be changed at any time.

        Clients that are added, or that lost their request to a restart, send at the
        start of the next `feed`; one that is taken away finishes its request.
        """
        self.mix = mix
        self.clients = clients
        self._rng = rng
        self._think_s = think_s

    def feed(self, engine: Engine, until: float) -> None:
        """Keep every client busy up to `until` and advance the engine to it."""
        for _ in range(self.clients - engine.open_requests):
            engine.submit(engine.now, *self.mix.draw(self._rng))
        for _ in engine.run(until):
            if engine.open_requests < self.clients:
                at = engine.now + self._think_s
                engine.submit(at, *self.mix.draw(self._rng))


def steady(rate: float) -> Callable[[float], float]:
    """Return the rate function that is always `rate` arrivals per second."""
    return lambda _at: rate


def wave(low: float, high: float, period_s: float) -> Callable[[float], float]:
    """Return a raised cosine: `low` at time 0, `high` half a period later."""
    middle, swing = (low + high) / 2, (high - low) / 2
    return lambda at: middle - swing * math.cos(2 * math.pi * at / period_s)


def drive(
    engine: Engine, load: Load, until: float, *, step: float = 1.0
) -> Iterator[float]:
    """Feed an engine up to `until`, and yield the time after every `step` seconds."""
    start, ticks = engine.now, 0
    while engine.now < until:
        ticks += 1
        load.feed(engine, min(start + ticks * step, until))
        yield engine.now
