"""A pool of simulated workers behind a balancer, scaled by a model of an autoscaler."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sidecar.simulator import Engine, Mix, Shape
from tests.gcp.metric_service import MetricService
from tests.gcp.series import Accepted
from tests.loop.replica import POLL, Replica, settings
from tests.loop.virtual import Network, Time

SHAPE = Shape(
    name="slow",
    step_fixed_s=100e-3,
    step_per_sequence_s=3e-3,
    step_per_kv_token_s=1e-6,
    prefill_per_token_s=100e-6,
    max_num_seqs=16,
    kv_blocks=2000,
    max_batched_tokens=2048,
    max_model_len=4096,
)
"""A large model on an old card: 3 s a request alone, 4.7 s with 16 of them. Few steps a
second make an hour cheap."""

MIX = Mix(prompt_tokens=100, output_tokens=30)

MODEL = "org/model"

LOADING = 180.0
"""Seconds from a worker's creation to its first request."""


class Scaler(Protocol):
    """What decides the pool's size, from the series alone.

    Attributes:
        resource_type: of the series that it reads.
        period: seconds between two decisions.
    """

    @property
    def resource_type(self) -> str: ...

    @property
    def period(self) -> float: ...

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a worker as a resource."""
        ...

    def decide(
        self,
        members: Sequence[Replica],
        accepted: Accepted,
        now: float,
    ) -> int:
        """The size from now on; `now` is Unix time."""
        ...


@dataclass(frozen=True)
class Moment:
    """The pool at one time: virtual seconds, members, requests that wait in all."""

    at: float
    size: int
    waiting: int


@dataclass
class Pool:
    """Poisson requests of a demand over time, given to the worker with the fewest.

    Attributes:
        demand: requests/s at a virtual time.
        history: one moment for each decision.
    """

    service: MetricService
    network: Network
    time: Time
    scaler: Scaler
    demand: Callable[[float], float]
    peak: float
    rng: random.Random
    members: list[Replica] = field(default_factory=list)
    leaving: list[Replica] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    _created: int = 0
    _turns: int = 0
    _next: float = 0.0

    @property
    def size(self) -> int:
        """Members, ready or not."""
        return len(self.members)

    def resize(self, size: int, loading: float = LOADING) -> None:
        """Create workers, or take the newest away.

        A ReplicaSet prefers pods not ready, then the newest; what a MIG prefers is not
        documented.
        """
        while self.size < size:
            self._create(loading)
        while self.size > size:
            replica = self.members.pop()
            replica.leaving = True
            self.leaving.append(replica)

    def run(self, seconds: float) -> None:
        """Let time pass, second by second."""
        until = self.time.now + seconds
        while self.time.now < until:
            second = self.time.now + 1.0
            self._arrive(second)
            self._advance(second)
            self._forget_the_gone()
            for replica in [*self.members, *self.leaving]:
                if _is_due(replica, second):
                    replica.tick()
            if second % self.scaler.period == 0:
                self._decide()

    def _decide(self) -> None:
        size = self.scaler.decide(self.members, self.service.accepted, self.time.wall())
        self.resize(size)
        waiting = sum(each.engine.waiting for each in self.members)
        self.history.append(Moment(self.time.now, self.size, waiting))

    def _create(self, loading: float) -> None:
        self._created += 1
        name, now = f"worker-{self._created}", self.time.now
        ready_at = now + loading
        engine = Engine(SHAPE, MODEL, started_at=ready_at)
        replica = Replica(name, engine, now, ready_at, self.time)
        self.network.pages[name] = replica.page
        labels = self.scaler.labels(name)
        replica.start_sidecar(settings(self.service, self.scaler.resource_type, labels))
        self.members.append(replica)

    def _arrive(self, until: float) -> None:
        """Poisson by thinning, as in ``sidecar.simulator.load``. The balancer knows who
        is done as of the last second, and what it has given since."""
        while self._next <= until:
            at = self._next
            self._next += self.rng.expovariate(self.peak)
            if self.rng.random() * self.peak >= self.demand(at):
                continue
            takers = [each for each in self.members if each.takes_requests]
            if not takers:
                continue
            # Ties go round, or the first of an idle pool would get everything.
            self._turns += 1
            turned = takers[self._turns % len(takers) :] + takers
            chosen = min(turned, key=lambda each: each.engine.open_requests)
            chosen.engine.submit(at, *MIX.draw(self.rng))

    def _advance(self, until: float) -> None:
        self.time.now = until
        for replica in [*self.members, *self.leaving]:
            if replica.is_ready:
                replica.engine.advance(until)

    def _forget_the_gone(self) -> None:
        for replica in list(self.leaving):
            if not replica.is_ready or not replica.engine.open_requests:
                replica.stop_sidecar()
                self.leaving.remove(replica)
                del self.network.pages[replica.name]

    def close(self) -> None:
        """Stop every sidecar."""
        for replica in [*self.members, *self.leaving]:
            replica.stop_sidecar()


def _is_due(replica: Replica, now: float) -> bool:
    """Sidecars do not poll in step: each began when its worker was created, and its
    number stands for the moment within the interval."""
    phase = int(replica.name.rpartition("-")[2])
    return (now - replica.created_at + phase) % POLL == 0
