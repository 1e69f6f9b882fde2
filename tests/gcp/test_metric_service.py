"""The service, seen through the real client."""

from __future__ import annotations

import grpc
import pytest
from google.api_core.exceptions import GoogleAPICallError, InvalidArgument, NotFound
from google.cloud.monitoring_v3 import MetricServiceClient
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.clients import Write, client_of, summary_of
from tests.gcp.makers import KEY, METRIC, NOW, PLACE, PROJECT, gauge
from tests.gcp.metric_service import MetricService
from tests.gcp.series import Point


def test_good_points_are_written(service: MetricService, write: Write) -> None:
    write(gauge(0.5), gauge(7.0, labels={"model": "org/a", "tag": "a"}))
    write(gauge(0.6, end=NOW + 5.0))

    labelled = KEY._replace(metric_labels=(("model", "org/a"), ("tag", "a")))
    assert service.accepted == {
        KEY: [Point(NOW, 0.5), Point(NOW + 5.0, 0.6)],
        labelled: [Point(NOW, 7.0)],
    }
    assert [len(each.time_series) for each in service.requests] == [2, 1]


def test_a_call_is_seen_with_its_headers_and_deadline(
    service: MetricService, client: MetricServiceClient
) -> None:
    metadata = [("x-a-header", "a")]
    client.create_time_series(
        name=PROJECT, time_series=[gauge()], timeout=7.0, metadata=metadata
    )

    (call,) = service.calls
    assert call.method == "CreateTimeSeries"
    assert call.metadata["x-a-header"] == "a"
    assert call.metadata["x-goog-request-params"] == "name=projects/a-project"
    assert call.deadline == pytest.approx(7.0, abs=2.0)


def test_a_project_goes_by_its_number_too(
    service: MetricService, client: MetricServiceClient
) -> None:
    client.create_time_series(name="projects/123456789012", time_series=[gauge()])

    assert KEY in service.accepted


@pytest.mark.parametrize("name", ["projects/other", "a-project", "folders/1"])
def test_another_project_is_not_found(client: MetricServiceClient, name: str) -> None:
    with pytest.raises(NotFound, match=name):
        client.create_time_series(name=name, time_series=[gauge()])


def test_two_hundred_series_are_the_most(service: MetricService, write: Write) -> None:
    many = [gauge(labels={"n": str(n)}) for n in range(201)]
    with pytest.raises(InvalidArgument) as caught:
        write(*many)

    text = "A maximum of 200 TimeSeries can be written in a single request."
    assert caught.value.message == f"Field timeSeries had an invalid value: {text}"
    assert not caught.value.details
    assert not service.accepted

    write(*many[:200])
    assert len(service.accepted) == 200


def test_a_request_without_series_is_refused(client: MetricServiceClient) -> None:
    with pytest.raises(InvalidArgument, match="missing field timeSeries"):
        client.create_time_series(name=PROJECT, time_series=[])


def test_the_good_points_of_a_bad_request_are_written(
    service: MetricService, write: Write
) -> None:
    def of(model: str, end: float) -> TimeSeries:
        return gauge(labels={"model": model}, end=end)

    write(*[of(model, NOW) for model in "abc"])

    with pytest.raises(InvalidArgument) as caught:
        write(
            of("a", NOW + 1.0),
            of("b", NOW + 2.0),
            of("d", NOW),
            of("c", NOW + 3.0),
            gauge(place={**PLACE, "zone": "here"}),
        )

    summary = summary_of(caught.value)
    assert (summary.total_point_count, summary.success_point_count) == (5, 1)
    (error,) = summary.errors
    assert (error.status.code, error.point_count) == (3, 4)
    message = caught.value.message
    first, second = message.split("; ")
    assert first.startswith(
        "One or more TimeSeries could not be written: timeSeries[0-1,3] (example "
        f'metric.type="{METRIC}", metric.labels={{"model": "a"}}): write for resource='
        "gce_instance{instance_id:4520031799277581759,zone:us-east1-b} failed with: One"
    )
    assert second.startswith("timeSeries[4] (example ")
    assert second.endswith("failed with: Unrecognized region or location.")
    (point,) = service.accepted[KEY._replace(metric_labels=(("model", "d"),))]
    assert point == Point(NOW, 0.5)


def test_an_answer_fits_into_headers_whatever_failed(write: Write) -> None:
    many = [gauge(place={"zone": "ü" * 500, "instance_id": f"{n}"}) for n in range(200)]
    with pytest.raises(InvalidArgument) as caught:
        write(*many)

    assert summary_of(caught.value).errors[0].point_count == 200


def test_it_stops_and_starts_again_with_what_it_had(
    service: MetricService, client: MetricServiceClient
) -> None:
    client.create_time_series(name=PROJECT, time_series=[gauge()])
    service.stop()
    with pytest.raises(GoogleAPICallError) as caught:
        client.create_time_series(name=PROJECT, time_series=[gauge()])
    assert caught.value.grpc_status_code is grpc.StatusCode.UNAVAILABLE

    service.start()
    with client_of(service.endpoint) as another:
        another.create_time_series(name=PROJECT, time_series=[gauge(end=NOW + 5.0)])
    assert len(service.accepted[KEY]) == 2
