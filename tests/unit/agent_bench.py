"""An agent with its time, its workers, its sink and its log in a test's hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import structlog
from structlog.testing import LogCapture

from sidecar import environment
from sidecar.agent import Agent
from sidecar.discovery import Source
from sidecar.log import Changes
from sidecar.reading import Identity, Reading
from sidecar.sinks.publisher import Publisher
from sidecar.telemetry import Telemetry
from tests.unit.http_worker import Peer, answer, peer

POLL = 5.0


class Time:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Page:
    """A vLLM page that a test changes; None: the server answers 503."""

    def __init__(self, model: str = "org/m") -> None:
        self.model, self.done = model, 0
        self.running: float = 0
        self.up = True

    def __call__(self, line: str) -> bytes:
        del line
        if not self.up:
            return answer("", "503 Service Unavailable")
        return answer(
            f'vllm:num_requests_running{{model_name="{self.model}"}} {self.running}\n'
            f'vllm:num_requests_waiting{{model_name="{self.model}"}} 0\n'
            f'vllm:request_success_total{{model_name="{self.model}"}} {self.done}\n'
        )


class Recorder:
    """A sink that keeps what it is given."""

    name = "recorder"
    interval = 0.0

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.retired: list[Identity] = []

    def check(self) -> str:
        return "ok"

    def publish(self, readings: Sequence[Reading]) -> None:
        self.readings += readings

    def retire(self, identities: Sequence[Identity]) -> None:
        self.retired += identities

    def close(self) -> None:
        pass


class Bench:
    """An agent with its time, its sink and its log in a test's hand."""

    def __init__(
        self,
        sources: list[Source] | None = None,
        beat: Callable[[], None] | None = None,
        **settings: Any,
    ) -> None:
        self.time = Time()
        self.logged = LogCapture()
        log = structlog.wrap_logger(
            structlog.PrintLogger(),
            processors=[self.logged],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.sink = Recorder()
        self.telemetry = Telemetry()
        loaded = environment.load({}, poll_interval=POLL, **settings).settings
        publisher = Publisher(
            self.sink, self.telemetry, Changes(log, self.time), self.time
        )
        self.publisher = publisher
        self.sources = sources
        self.agent = Agent(
            loaded,
            [publisher],
            self.telemetry,
            log,
            environ={},
            sources=(lambda: iter(self.sources or [])) if sources is not None else None,
            hostname="vm1",
            beat=beat,
            clock=self.time,
            wall=lambda: 1e9 + self.time.now,
        )

    def tick(self, times: int = 1) -> list[Reading]:
        for _ in range(times):
            readings = self.agent.tick()
            self.publisher.turn()
            self.time.now += POLL
        return readings

    def lines(self, level: str = "") -> list[str]:
        entries = self.logged.entries
        return [e["event"] for e in entries if level in {"", e["log_level"]}]

    def polls(self, outcome: str) -> float:
        value = self.telemetry.registry.get_sample_value(
            "sidecar_polls_total", {"outcome": outcome}
        )
        return value or 0.0

    def close(self) -> None:
        self.agent.stop(0.0)


def start(stack: ExitStack, page: Page) -> Peer:
    return stack.enter_context(peer(page))


def bench(stack: ExitStack, *peers: Peer, **settings: Any) -> Bench:
    targets = tuple(found.target.address for found in peers)
    found = Bench(None, targets=targets, **settings)
    stack.callback(found.close)
    return found
