"""Every rule for a series alone is enforced, seen through the real client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from google.api_core.exceptions import InvalidArgument
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.clients import Write, client_of, refusal
from tests.gcp.makers import KEY, NOW, ONE, PROJECT, gauge
from tests.gcp.metric_service import MetricService
from tests.gcp.series import Point

URL = "The metric type must be a URL-formatted string with a domain and non-empty path."


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("llm_worker_utilization", URL),
        ("custom.googleapis.com", URL),
        ("custom.googleapis.com/", URL),
        ("custom.googleapis.com/a//b", URL),
        ("custom.googleapis.com/vllm:num_requests_running", URL),
        ("custom.googleapis.com/a b", URL),
        ("custom.googleapis.com/ü", URL),
        ("compute.googleapis.com/a", "not one that users may write"),
        ("prometheus.googleapis.com/a/gauge", "not one that users may write"),
        ("example.com/a", "not one that users may write"),
        (f"custom.googleapis.com/{'a' * 179}", "at most 200 characters"),
    ],
)
def test_a_metric_type_has_a_form(write: Write, metric: str, text: str) -> None:
    message = refusal(write, gauge(metric=metric))

    assert f'timeSeries[0].metric.type had an invalid value of "{metric}"' in message
    assert text in message


@pytest.mark.parametrize(
    "metric",
    [
        "custom.googleapis.com/a/b_1.c",
        "workload.googleapis.com/a",
        "external.googleapis.com/a",
        f"custom.googleapis.com/{'a' * 178}",
    ],
)
def test_users_have_three_domains(write: Write, metric: str) -> None:
    write(gauge(metric=metric))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("http.host", "", '"http.host": Label key contains invalid characters.'),
        ("7bar", "", '"7bar": Label key contains invalid characters.'),
        ("_a", "", '"_a": Label key contains invalid characters.'),
        ("", "", '"": Label key contains invalid characters.'),
        ("a" * 101, "", "Label key is longer than 100 characters."),
        ("a", "ü" * 1025, "Label value is longer than 1024 characters."),
    ],
)
def test_labels_have_a_form(write: Write, key: str, value: str, text: str) -> None:
    message = refusal(write, gauge(labels={key: value}))

    # An answer is cut where it would not fit into headers.
    assert text in message or (len(value) > 1000 and "metric.labels[a]" in message)


def test_labels_may_be_long_and_of_any_script(
    service: MetricService, write: Write
) -> None:
    labels = {"a" * 100: "ü" * 1024, "B_1": ""}
    write(gauge(labels=labels))

    (key,) = service.accepted
    assert dict(key.metric_labels) == labels


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"points": []}, "Exactly one point must be written, but there are 0."),
        ({"points": [ONE, ONE]}, "Exactly one point must be written, but there are 2."),
        ({"metric_kind": "CUMULATIVE"}, "takes gauges only"),
        ({"points": [{**ONE, "value": {}}]}, "missing field timeSeries[0].points[0].v"),
        ({"points": [{**ONE, "value": {"bool_value": True}}]}, "DOUBLE and INT64 only"),
        ({"value_type": "INT64"}, "must be INT64, but is DOUBLE."),
        ({"points": [{**ONE, "interval": {}}]}, "interval.endTime."),
    ],
)
def test_a_series_is_one_gauge(
    write: Write, fields: Mapping[str, Any], text: str
) -> None:
    assert text in refusal(write, gauge(**fields))


def test_a_gauge_may_say_that_it_is_one(service: MetricService, write: Write) -> None:
    write(gauge(metric_kind="GAUGE", value_type="DOUBLE", unit="1"))

    assert service.accepted == {KEY: [Point(NOW, 0.5)]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_is_finite(write: Write, value: float) -> None:
    assert "non-finite" in refusal(write, gauge(value))


def started(start: int) -> TimeSeries:
    """A series whose point has a start time, too."""
    interval = {"start_time": {"seconds": start}, "end_time": {"seconds": int(NOW)}}
    return gauge(points=[{**ONE, "interval": interval}])


def test_a_gauge_starts_when_it_ends(write: Write) -> None:
    assert "must be equal to the end time" in refusal(write, started(int(NOW) - 1))

    write(started(int(NOW)))


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (NOW - 25 * 3600 - 0.001, "cannot be written more than 25h10s in the past."),
        (NOW + 300.001, "cannot be written more than 5m in the future."),
    ],
)
def test_a_point_is_of_now(write: Write, end: float, text: str) -> None:
    message = refusal(write, gauge(end=end))

    assert "timeSeries[0].points[0].interval.end_time had an invalid value" in message
    assert text in message


@pytest.mark.parametrize("end", [NOW - 25 * 3600, NOW + 300.0])
def test_a_point_may_be_late_or_early(write: Write, end: float) -> None:
    write(gauge(end=end))


def test_the_clock_is_asked_at_each_request() -> None:
    clock = iter([NOW, NOW + 301.0])
    with (
        MetricService(clock=lambda: next(clock)) as service,
        client_of(service.endpoint) as client,
    ):
        early = [gauge(end=NOW + 301.0)]
        with pytest.raises(InvalidArgument, match="in the future"):
            client.create_time_series(name=PROJECT, time_series=early)
        client.create_time_series(name=PROJECT, time_series=early)
