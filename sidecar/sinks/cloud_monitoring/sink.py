"""The sink: what to write, when to try again, and when to wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.cloud.monitoring_v3.types import TimeSeries

from sidecar.errors import SinkError
from sidecar.identity import Resource, Surroundings
from sidecar.metadata import MetadataServer
from sidecar.reading import Identity, Reading
from sidecar.sink_settings import CloudMonitoringSettings
from sidecar.sinks.cloud_monitoring import refusals
from sidecar.sinks.cloud_monitoring.client import Client
from sidecar.sinks.cloud_monitoring.pace import Pace
from sidecar.sinks.cloud_monitoring.refusals import TWO_WRITERS, Refusal
from sidecar.sinks.cloud_monitoring.series import series

MOST_SERIES = 200
"""In one request: the reference of CreateTimeSeries."""

PAUSE = 1.0
"""Seconds before the one more try; some jitter is added."""

LEAST_TIME = 0.5
"""Seconds; with less left before the next write there is no more try."""

LONGEST_WAIT = 120.0
"""Seconds without a write where the last one was refused for good reasons."""


class CloudMonitoringSink:
    """Writes a point for each chosen number of each worker.

    Args:
        environ: where Google's own libraries look, and Kubernetes tells the pod's name.
        clock: monotonic time. sleep: waits so many seconds.
        jitter: a number from 0 to 1, another at each call.
    """

    name = "cloud_monitoring"

    def __init__(
        self,
        settings: CloudMonitoringSettings,
        environ: Mapping[str, str],
        hostname: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.interval = settings.interval
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._client = Client(settings, environ)
        metadata = MetadataServer(environ)
        self._surroundings = Surroundings(environ, hostname, metadata, clock)
        self._pace = Pace()
        self._wait = 0.0
        self._resume_at = 0.0
        self._refused: SinkError | None = None

    def check(self) -> str:
        """Ask the service for the resource type that would be written.

        Raises:
            SinkError: no credentials, no such project, no right to ask.
        """
        settings = self._settings
        try:
            project = self._project()
            resource = self._resource()
            labels = self._client.labels(project, resource.type, settings.timeout)
        except (GoogleAPICallError, GoogleAuthError) as error:
            raise self._error(self._read(error)) from None
        if unknown := sorted(set(resource.labels) - set(labels)):
            msg = f"{resource.type} has no label {', '.join(unknown)}"
            raise SinkError(msg, reason="resource")
        words = ", ".join(settings.metrics)
        return f"project {project}, {resource}: {words} below {settings.prefix}"

    def publish(self, readings: Sequence[Reading]) -> None:
        """Write the readings that are due; what is refused is dropped.

        Raises:
            SinkError: some or all points were not stored.
        """
        if self._refused and self._clock() < self._resume_at:
            raise self._refused
        due = self._pace.due(readings)
        if due.points:
            self._publish(due.points)
        if due.back > 0:
            msg = f"the clock went back by {due.back:.0f}s; Cloud Monitoring takes no "
            msg += "point older than the last: nothing is written until it is over"
            raise SinkError(msg, reason="clock")

    def retire(self, identities: Sequence[Identity]) -> None:
        """Nothing to take away: a series without new points ends by itself."""

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _publish(self, points: Sequence[tuple[Reading, float]]) -> None:
        deadline = self._clock() + self.interval
        resource, settings = self._resource(), self._settings
        found = list(
            chain.from_iterable(
                series(reading, end, settings.metrics, settings.prefix, resource)
                for reading, end in points
            )
        )
        answers = [
            self._write(found[first : first + MOST_SERIES], deadline)
            for first in range(0, len(found), MOST_SERIES)
        ]
        refused = [answer for answer in answers if answer]
        if len(refused) < len(answers) or any(each.written for each in refused):
            self._pace.sent(points)
        self._refused = None
        if not refused:
            self._wait = 0.0
            return
        failed = [each.failed for each in refused]
        dropped = (
            None if None in failed else min(len(points), sum(filter(None, failed)))
        )
        self._refused = self._error(refused[0], dropped)
        if refused[0].pause:
            self._wait = min(LONGEST_WAIT, max(self.interval, 2 * self._wait))
            self._resume_at = self._clock() + self._wait * (1 + self._jitter()) / 2
        raise self._refused

    def _write(self, found: Sequence[TimeSeries], deadline: float) -> Refusal | None:
        """One request, and where that may help the same once more; None: stored."""
        first = self._try(found, self._settings.timeout)
        pause = PAUSE * (1 + self._jitter())
        left = deadline - self._clock() - pause
        if first is None or not first.again or left < LEAST_TIME:
            return first
        self._sleep(pause)
        second = self._try(found, min(left, self._settings.timeout))
        if second is None or (first.written and second.reason == TWO_WRITERS):
            # It was stored the first time, and only the answer was lost.
            return None
        return second._replace(written=first.written or second.written)

    def _try(self, found: Sequence[TimeSeries], timeout: float) -> Refusal | None:
        try:
            self._client.write(self._project(), found, timeout)
        except (GoogleAPICallError, GoogleAuthError) as error:
            refusal = self._read(error)
            if refusal.renew:
                self._client.close()
            return refusal
        return None

    def _project(self) -> str:
        """The setting, else the machine's, else that of the credentials."""
        found = self._settings.project or self._surroundings.project
        if not found:
            self._client.connected()
            found = self._client.project
        if not found:
            msg = "no project is known; set SIDECAR_CLOUD_MONITORING_PROJECT"
            raise SinkError(msg, reason="project")
        return found

    def _resource(self) -> Resource:
        settings = self._settings
        return self._surroundings.resource(
            settings.resource_type, settings.resource_labels
        )

    def _read(self, error: Exception) -> Refusal:
        project = self._settings.project or self._surroundings.project or "(none)"
        return refusals.read(error, project, self._client.account)

    @staticmethod
    def _error(refusal: Refusal, dropped: int | None = None) -> SinkError:
        return SinkError(refusal.text, reason=refusal.reason, dropped=dropped)
