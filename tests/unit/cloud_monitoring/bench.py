"""The sink on the test service, its clocks in a test's hand."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.errors import SinkError
from sidecar.reading import Identity, Reading
from sidecar.sink_settings import CloudMonitoringSettings
from sidecar.sinks.cloud_monitoring.sink import CloudMonitoringSink
from tests.gcp.metric_service import MetricService
from tests.unit.makers import IDENTITY, reading

LABELS = {"location": "global", "namespace": "n", "job": "j", "task_id": "t"}


class Bench:
    """A service and a sink that writes to it.

    Attributes:
        now: Unix seconds; the monotonic clock is a thousand behind.
        slept: the pauses between tries, seconds.
    """

    def __init__(self, **settings: Any) -> None:
        self.now = 1_700_000_000.0
        self.slept: list[float] = []
        self.service = MetricService("a-project", lambda: self.now)
        self.settings = CloudMonitoringSettings(
            **{
                "project": "a-project",
                "endpoint": self.service.endpoint,
                "insecure": True,
                "resource_type": "generic_task",
                "resource_labels": LABELS,
                **settings,
            }
        )
        self.sink = self.restarted()

    def restarted(self) -> CloudMonitoringSink:
        """A sink as of a new process."""
        return CloudMonitoringSink(
            self.settings,
            {},
            "host",
            clock=lambda: self.now - 1000,
            sleep=self._sleep,
            jitter=lambda: 0.5,
        )

    def write(self, *identities: Identity, after: float = 10.0, **more: Any) -> None:
        """Publish a reading of each worker, so many seconds later."""
        self.now += after
        self.sink.publish(self.readings(*identities, **more))

    def refused(self, *identities: Identity, after: float = 10.0) -> SinkError:
        """The same, where it must fail."""
        with pytest.raises(SinkError) as told:
            self.write(*identities, after=after)
        return told.value

    def readings(self, *identities: Identity, **more: Any) -> list[Reading]:
        """A reading of each worker, taken now."""
        return [reading(each, self.now, **more) for each in identities or (IDENTITY,)]

    @property
    def ends(self) -> list[float]:
        """End times of the capacity's first series, seconds since the beginning."""
        found = [
            points
            for key, points in self.service.accepted.items()
            if key.metric_type.endswith("llm_worker_capacity")
        ]
        return [point.end_time - 1_700_000_000 for point in found[0]] if found else []

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
