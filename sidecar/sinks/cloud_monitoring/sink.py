"""The sink: what to write, when to try again, and when to wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError
from google.cloud.monitoring_v3.types import TimeSeries

from sidecar.errors import SinkError
from sidecar.identity import Resource, Surroundings
from sidecar.metadata import MetadataServer
from sidecar.reading import Identity, Reading
from sidecar.sink_settings import CloudMonitoringSettings
from sidecar.sinks.cloud_monitoring import refusals
from sidecar.sinks.cloud_monitoring.client import CREDENTIALS, Client
from sidecar.sinks.cloud_monitoring.pace import Pace
from sidecar.sinks.cloud_monitoring.refusals import Refusal
from sidecar.sinks.cloud_monitoring.remedies import TWO_WRITERS, Used
from sidecar.sinks.cloud_monitoring.series import series

MOST_SERIES = 200
"""In one request: the reference of CreateTimeSeries."""

PAUSE = 1.0
"""Seconds before the one more try; some jitter is added."""

LEAST_TIME = 0.5
"""Seconds; with less left before the next write there is no more try."""

AWAY = ("unavailable", "timeout")
"""Reasons after which further requests of the same write are not tried."""

MOST_BEHIND = 60.0
"""Seconds; the readers of points look back for some minutes."""

LONGEST_WAIT = 120.0
"""Seconds without a write where the last one was refused for good reasons."""


_RESTARTED = (
    "the process before this one wrote a point just now; the next one is written"
)


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
        self._environ = environ
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
        self._is_new = True

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
            refusal = self._read(error)
            raise SinkError(refusal.text, reason=refusal.reason) from None
        if unknown := sorted(set(resource.labels) - set(labels)):
            msg = f"{resource.type} has no label {', '.join(unknown)}"
            raise SinkError(msg, reason="resource")
        words = ", ".join(settings.metrics)
        return f"project {project}, {resource}: {words} below {settings.prefix}"

    def publish(self, readings: Sequence[Reading]) -> None:
        """Write the readings that are due; what is refused is dropped.

        Raises:
            SinkError: some or all points were not stored, or nobody will see them.
        """
        if self._refused and self._clock() < self._resume_at:
            raise SinkError(str(self._refused), reason=self._refused.reason)
        due = self._pace.due(readings)
        if due.points:
            self._publish(due.points)
        if due.back > 0:
            msg = f"the clock went back by {due.back:.0f}s; Cloud Monitoring takes no "
            msg += "point older than the last: nothing is written until it is over"
            raise SinkError(msg, reason="clock")
        if self._refused:
            # Nothing was due, and nothing is well for that.
            raise SinkError(str(self._refused), reason=self._refused.reason, dropped=0)
        if self._client.time.behind > MOST_BEHIND:
            msg = f"this machine's clock is {self._client.time.behind:.0f}s behind: "
            msg += (
                "an autoscaler sees no new point; see timedatectl or chronyc tracking"
            )
            raise SinkError(msg, reason="clock", dropped=0)

    def retire(self, identities: Sequence[Identity]) -> None:
        """Nothing to take away: a series without new points ends by itself."""

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _publish(self, points: Sequence[tuple[Reading, float]]) -> None:
        deadline = self._clock() + self.interval
        resource, settings = self._resource(), self._settings
        owned = [
            (reading.identity, each)
            for reading, end in points
            for each in series(
                reading, end, settings.metrics, settings.prefix, resource
            )
        ]
        refused: list[Refusal] = []
        stored: set[Identity] = set()
        lost: set[Identity] = set()
        doubtful: set[Identity] = set()
        for first in range(0, len(owned), MOST_SERIES):
            chunk = owned[first : first + MOST_SERIES]
            owners = [owner for owner, _ in chunk]
            # A service that is away is not waited for once more for each request.
            answer = next((each for each in refused if each.reason in AWAY), None)
            answer = answer or self._write([each for _, each in chunk], deadline)
            if answer is None:
                stored.update(owners)
                continue
            refused.append(answer)
            failed = answer.failed
            if failed is None:
                lost.update(owners)
                doubtful.update(owners if answer.written else ())
            else:
                lost.update(who for i, who in enumerate(owners) if i in failed)
                stored.update(who for i, who in enumerate(owners) if i not in failed)
        self._pace.sent([p for p in points if p[0].identity in stored], stored=True)
        doubtful -= stored
        self._pace.sent([p for p in points if p[0].identity in doubtful], stored=False)
        self._note(refused, len(lost))

    def _note(self, refused: Sequence[Refusal], lost: int) -> None:
        """Remember how it went, and fail if it did."""
        is_new, self._is_new = self._is_new, False
        if not refused:
            self._wait, self._refused = 0.0, None
            return
        worst = max(refused, key=lambda each: each.pause)
        text, reason = worst.text, worst.reason
        if reason == TWO_WRITERS and is_new:
            text, reason = _RESTARTED, "restarted"
        self._refused = SinkError(text, reason=reason, dropped=lost)
        if worst.pause:
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
        project = self._settings.project or self._surroundings.project
        project = project or self._client.project or "(none)"
        file = self._environ.get(CREDENTIALS)
        return refusals.read(error, Used(project, self._client.account, file))
