"""Every rule for what follows what, seen through the real client."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import InvalidArgument
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.clients import Write, refusal
from tests.gcp.makers import KEY, METRIC, NOW, ONE, gauge
from tests.gcp.metric_service import MetricService
from tests.gcp.series import Point


@pytest.mark.parametrize("later", [0.0, -0.001, -60.0])
def test_points_come_in_order(write: Write, later: float) -> None:
    write(gauge())

    message = refusal(write, gauge(end=NOW + later))

    assert message == (
        "One or more TimeSeries could not be written: timeSeries[0] (example "
        f'metric.type="{METRIC}", metric.labels={{}}): write for resource=gce_instance'
        "{instance_id:4520031799277581759,zone:us-east1-b} failed with: Points must be "
        "written in order. One or more of the points specified had an older end time "
        "than the most recent point."
    )


@pytest.mark.parametrize("later", [0.001, 4.999])
def test_points_are_five_seconds_apart(write: Write, later: float) -> None:
    write(gauge())

    message = refusal(write, gauge(end=NOW + later))

    assert message.endswith(
        "failed with: One or more points were written more frequently than the maximum "
        f"sampling period configured for the metric. {{Metric: {METRIC}, Timestamps: "
        "{Youngest Existing: '1970/01/12-06:46:40.000', "
        f"New: '1970/01/12-06:46:4{later:.3f}'}}}}"
    )


def test_duplicates_are_written_once(service: MetricService, write: Write) -> None:
    with pytest.raises(InvalidArgument) as caught:
        write(gauge(1.0), gauge(2.0), gauge(3.0, end=NOW + 60.0))

    text = "had an invalid value: Duplicate TimeSeries encountered. Only one point can "
    text += "be written per TimeSeries per request."
    assert caught.value.message == (
        "One or more TimeSeries could not be written: timeSeries[1]: Field "
        f"timeSeries[1] {text}; timeSeries[2]: Field timeSeries[2] {text}"
    )
    assert service.accepted == {KEY: [Point(NOW, 1.0)]}


def whole() -> TimeSeries:
    """A series with one INT64."""
    return gauge(points=[{**ONE, "value": {"int64_value": 3}}])


def test_the_first_point_fixes_the_value_type(
    service: MetricService, write: Write
) -> None:
    write(whole())

    message = refusal(write, gauge(end=NOW + 5.0))

    text = f"Value type for metric {METRIC} conflicts with the existing value type "
    assert f"{text}(INT64)." in message
    assert service.accepted == {KEY: [Point(NOW, 3.0)]}


def test_thirty_labels_are_the_most_of_all_series_of_a_metric(write: Write) -> None:
    write(gauge(labels={f"a{n}": "" for n in range(29)}))
    write(gauge(labels={"b": ""}))

    message = refusal(write, gauge(labels={"c": ""}))

    assert f"would cause the metric {METRIC} to have over 30 labels." in message
    write(gauge(labels={"c": ""}, metric=f"{METRIC}_2"))
