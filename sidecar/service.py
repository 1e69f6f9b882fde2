"""All parts of a running sidecar, wired together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from structlog.typing import FilteringBoundLogger

from sidecar import discovery, health, sinks
from sidecar.agent import Agent
from sidecar.log import Changes
from sidecar.memory import Memory
from sidecar.notify import ServiceManager
from sidecar.server import Server
from sidecar.settings import Settings
from sidecar.sinks.prometheus import PrometheusSink
from sidecar.sinks.publisher import Publisher
from sidecar.status import summary
from sidecar.telemetry import Telemetry

STOP_WITHIN = 4.0
"""Seconds for retiring everything; the process promises to end within 5."""


class Service:
    """The agent, its sinks and its page.

    Args:
        manager: told of every turn of the loop; None: this is somebody else's process.

    Raises:
        SettingsError: a sink, the page's address or a variable of Dynamo's cannot be
            used as set.
    """

    def __init__(
        self,
        settings: Settings,
        log: FilteringBoundLogger,
        environ: Mapping[str, str] | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        discovery.refuse_bad_variables(settings, environ)
        telemetry, changes = Telemetry(), Changes(log)
        if not settings.enabled:
            # Zero would read as a sidecar that has found no worker for fifty years.
            telemetry.registry.unregister(telemetry.last_poll_success)
        publishers = []
        for name in sinks.chosen(settings) if settings.enabled else []:
            sink = sinks.build(name, settings)
            if isinstance(sink, PrometheusSink):
                telemetry.registry.register(sink)
            publishers.append(Publisher(sink, telemetry, changes))
        memory = None
        if settings.state_file and settings.enabled:
            memory = Memory(settings.state_file, settings.estimator, changes)
        self._manager = manager
        self.agent = Agent(
            settings,
            publishers,
            telemetry,
            log,
            environ=environ,
            memory=memory,
            beat=self._beat,
            beat_interval=manager.beat_interval if manager else None,
        )
        self.server: Server | None = None
        if settings.listen != "off":
            routes = health.routes(self.agent, telemetry)
            self.server = Server(settings.listen, routes)

    def start(self) -> None:
        """Poll, publish and serve on threads from now on."""
        if self.server:
            self.server.start()
        self.agent.start()

    def stop(self) -> None:
        """Retire everything and end, within the promised time; safe twice."""
        self.agent.stop(STOP_WITHIN)
        if self.server:
            self.server.stop()

    def _beat(self) -> None:
        if self._manager:
            self._manager.beat(summary(self.agent))
