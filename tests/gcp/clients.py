"""The real client, on a server of ours, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.api_core.exceptions import GoogleAPICallError, InvalidArgument
from google.cloud.monitoring_v3 import MetricServiceClient
from google.cloud.monitoring_v3.services.metric_service.transports import (
    MetricServiceGrpcTransport,
)
from google.cloud.monitoring_v3.types import CreateTimeSeriesSummary, TimeSeries

Write = Callable[..., None]
"""Writes its arguments, series, into the project."""


@contextmanager
def client_of(endpoint: str) -> Iterator[MetricServiceClient]:
    """A client without credentials or TLS, as no option of the client gives one.

    It shares no connection with another client, nor another's waiting to connect again.
    """
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_metadata_size", 1 << 20),
        ("grpc.absolute_max_metadata_size", 1 << 20),
    ]
    with grpc.insecure_channel(endpoint, options) as channel:
        transport = MetricServiceGrpcTransport(channel=channel)
        yield MetricServiceClient(transport=transport)


def summary_of(error: GoogleAPICallError) -> CreateTimeSeriesSummary:
    """What was written and what was not: the only detail."""
    (detail,) = error.details
    summary = CreateTimeSeriesSummary()
    assert detail.Unpack(CreateTimeSeriesSummary.pb(summary))
    return summary


def refusal(write: Write, *series: TimeSeries) -> str:
    """The text for series of which none can be written."""
    with pytest.raises(InvalidArgument) as caught:
        write(*series)
    summary = summary_of(caught.value)
    assert summary.success_point_count == 0
    return str(caught.value.message)
