"""One simulated worker and the sidecar beside it, in virtual time.

The sidecar is the whole product but for two threads and one socket: the agent is ticked
and the publisher turned by hand, and the worker's page comes from memory instead of a
connection: over loopback a poll takes 5 ms instead of 2, and hours are polled here. The
page's text, the name filter, the dialect, the pipeline, the states, the retirement, the
sink and its gRPC are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

import structlog

from sidecar import environment, sinks
from sidecar.agent import Agent
from sidecar.discovery import Source
from sidecar.errors import ScrapeError
from sidecar.log import Changes
from sidecar.settings import Settings
from sidecar.simulator import Engine, render
from sidecar.sinks.publisher import Publisher
from sidecar.target import Target
from sidecar.telemetry import Telemetry
from tests.gcp.metric_service import MetricService
from tests.loop.virtual import EPOCH, Time

POLL = 5.0
"""Seconds between two polls: the sidecar's default."""

PORT = 8000

_LOG = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)
)


@dataclass
class Replica:
    """A worker of the pool: it loads, serves, and drains when it is taken away.

    Attributes:
        created_at, ready_at: virtual seconds; in between the model is loaded.
        answers: whether its page does; it serves all the same.
        routed: whether the balancer sends it requests.
        leaving: no new requests; gone when the last is done.
    """

    name: str
    engine: Engine
    created_at: float
    ready_at: float
    time: Time
    answers: bool = True
    routed: bool = True
    leaving: bool = False
    agent: Agent | None = field(default=None, repr=False)
    publisher: Publisher | None = field(default=None, repr=False)

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded."""
        return self.time.now >= self.ready_at

    @property
    def takes_requests(self) -> bool:
        """Whether the balancer may choose it."""
        return self.is_ready and self.routed and not self.leaving

    def page(self, path: str) -> str:
        """What its server says, as vLLM's two handlers do.

        Raises:
            ScrapeError: nothing listens.
        """
        if not (self.is_ready and self.answers):
            raise ScrapeError("nothing listens there", reason="refused")
        return render(self.engine, _names(path), epoch=EPOCH)

    def restart(self) -> None:
        """Another process at once: its counts are 0, the requests it had are lost."""
        self.engine.restart(self.time.now)

    def start_sidecar(self, settings: Settings) -> None:
        """The sidecar as the platform would start it, beside this worker only."""
        telemetry, time = Telemetry(), self.time
        target = Target("http", self.name, PORT, None, "by hand", self._sequences)
        self.publisher = Publisher(
            sinks.build("cloud_monitoring", settings),
            telemetry,
            Changes(_LOG, time),
            time,
        )

        def sources() -> Iterator[Source]:
            yield Source("by hand", (target,), decided=True)

        self.agent = Agent(
            settings,
            [self.publisher],
            telemetry,
            _LOG,
            environ={},
            sources=sources,
            hostname=self.name,
            clock=time,
            wall=time.wall,
        )

    @property
    def _sequences(self) -> float:
        """--max-num-seqs, as the process table shows it."""
        return self.engine.shape.max_num_seqs

    def tick(self) -> None:
        """One turn of the sidecar's loop and of its sink's.

        Raises:
            AssertionError: the sink was refused something.
        """
        assert self.agent
        assert self.publisher
        self.agent.tick()
        self.publisher.turn()
        assert self.publisher.last_error is None, self.publisher.last_error

    def stop_sidecar(self) -> None:
        """SIGTERM."""
        if self.agent:
            self.agent.stop(0.0)


# The same question comes at every poll, and reading it costs more than the answer.
@lru_cache
def _names(path: str) -> frozenset[str] | None:
    """The samples asked for; None: the whole page."""
    url = urlsplit(path)
    asked = parse_qs(url.query).get("name[]") if url.path == "/metrics/" else None
    return frozenset(asked) if asked else None


def settings(
    service: MetricService, resource_type: str, labels: Mapping[str, str]
) -> Settings:
    """As an operator would set them, without the numbers that nobody reads here; the
    rest are the defaults."""
    cloud = {
        "project": "a-project",
        "endpoint": service.endpoint,
        "insecure": True,
        "interval": 10,
        "metrics": ["utilization"],
        "resource_type": resource_type,
        "resource_labels": dict(labels),
    }
    loaded = environment.load({}, poll_interval=POLL, cloud_monitoring=cloud)
    return loaded.settings
