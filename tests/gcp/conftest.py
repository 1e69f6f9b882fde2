"""A service whose clock stands still, and the real client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.monitoring_v3 import MetricServiceClient
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.clients import Write, client_of
from tests.gcp.makers import NOW, PROJECT
from tests.gcp.metric_service import MetricService


@pytest.fixture
def service() -> Iterator[MetricService]:
    """A service whose clock stands still."""
    with MetricService("a-project", clock=lambda: NOW) as server:
        yield server


@pytest.fixture
def client(service: MetricService) -> Iterator[MetricServiceClient]:
    """The real client."""
    with client_of(service.endpoint) as found:
        yield found


@pytest.fixture
def write(client: MetricServiceClient) -> Write:
    """Write some series into the project."""

    def into_the_project(*series: TimeSeries) -> None:
        client.create_time_series(name=PROJECT, time_series=list(series))

    return into_the_project
