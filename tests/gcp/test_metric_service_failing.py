"""The failures that can be told, and the reading methods."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.api.metric_pb2 import MetricDescriptor
from google.api_core import exceptions
from google.cloud.monitoring_v3 import ListTimeSeriesRequest, MetricServiceClient
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    ErrorInfo,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from tests.gcp import answers
from tests.gcp.injections import EVERY_METHOD
from tests.gcp.makers import METRIC, NOW, ONE, PLACE, PROJECT, gauge
from tests.gcp.metric_service import DESCRIBING, MetricService

POD_TYPE = f"{PROJECT}/monitoredResourceDescriptors/k8s_pod"


def write_one(
    client: MetricServiceClient, end: float = NOW, timeout: float | None = None
) -> None:
    """Write one good point."""
    client.create_time_series(
        name=PROJECT, time_series=[gauge(end=end)], timeout=timeout
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.UNAVAILABLE, exceptions.ServiceUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, exceptions.DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, exceptions.ResourceExhausted),
    ],
)
def test_the_next_calls_fail(
    service: MetricService,
    client: MetricServiceClient,
    code: grpc.StatusCode,
    error: type[exceptions.GoogleAPICallError],
) -> None:
    service.fail(code, "a text", times=2)
    for _ in range(2):
        with pytest.raises(error, match="a text"):
            write_one(client)
    assert not service.accepted
    assert len(service.requests) == 2

    write_one(client)
    assert service.accepted


def test_failures_queue_up(service: MetricService, client: MetricServiceClient) -> None:
    service.fail(grpc.StatusCode.UNAVAILABLE)
    service.fail(grpc.StatusCode.ABORTED)

    with pytest.raises(exceptions.ServiceUnavailable):
        write_one(client)
    with pytest.raises(exceptions.Aborted):
        write_one(client)
    write_one(client)


def test_calls_fail_until_it_recovers(
    service: MetricService, client: MetricServiceClient
) -> None:
    service.fail(grpc.StatusCode.UNAVAILABLE, times=None)
    for _ in range(3):
        with pytest.raises(exceptions.ServiceUnavailable):
            write_one(client)

    service.recover()
    write_one(client)


def test_a_failed_call_may_have_written(
    service: MetricService, client: MetricServiceClient
) -> None:
    service.fail(grpc.StatusCode.UNAVAILABLE, after_writing=True)
    with pytest.raises(exceptions.ServiceUnavailable):
        write_one(client)
    assert len(service.accepted) == 1

    with pytest.raises(exceptions.InvalidArgument, match="older end time"):
        write_one(client)


@pytest.mark.parametrize("after_writing", [False, True])
def test_a_call_hangs_until_the_clients_deadline(
    service: MetricService, client: MetricServiceClient, after_writing: bool
) -> None:
    service.hang(after_writing=after_writing)
    with pytest.raises(exceptions.DeadlineExceeded):
        write_one(client, timeout=0.2)

    assert bool(service.accepted) is after_writing
    write_one(client, end=NOW + 60.0)


def test_a_stop_ends_what_hangs(
    service: MetricService, client: MetricServiceClient
) -> None:
    service.hang()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(write_one, client, timeout=20.0)
        service.wait_for(1)

        service.stop()

        with pytest.raises(exceptions.GoogleAPICallError) as caught:
            call.result()
    code = caught.value.grpc_status_code
    assert code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize(
    ("answer", "error", "text", "reason"),
    [
        (
            answers.missing_role(),
            exceptions.PermissionDenied,
            "Permission monitoring.timeSeries.create denied "
            "(or the resource may not exist).",
            None,
        ),
        (
            answers.insufficient_scope(),
            exceptions.PermissionDenied,
            "Request had insufficient authentication scopes.",
            "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
        ),
        (
            answers.api_disabled("42"),
            exceptions.PermissionDenied,
            "Cloud Monitoring API has not been used in project 42 before",
            "SERVICE_DISABLED",
        ),
        (
            answers.quota(),
            exceptions.ResourceExhausted,
            "Quota exceeded for quota metric 'Time series ingestion requests'",
            "RATE_LIMIT_EXCEEDED",
        ),
        (
            answers.unauthenticated(),
            exceptions.Unauthenticated,
            "Request had invalid authentication credentials.",
            None,
        ),
        (
            answers.internal(),
            exceptions.InternalServerError,
            "Please retry after a few seconds.",
            None,
        ),
        (answers.unavailable(), exceptions.ServiceUnavailable, "unavailable", None),
    ],
)
def test_real_answers_are_ready(
    service: MetricService,
    client: MetricServiceClient,
    answer: Status,
    error: type[exceptions.GoogleAPICallError],
    text: str,
    reason: str | None,
) -> None:
    service.fail_with(answer)
    with pytest.raises(error) as caught:
        write_one(client)

    assert text in caught.value.message
    assert caught.value.reason == reason
    if reason is not None:
        assert caught.value.domain == "googleapis.com"
        assert caught.value.metadata["service"] == "monitoring.googleapis.com"
        infos = [each for each in caught.value.details if isinstance(each, ErrorInfo)]
        assert len(infos) == 1


def test_a_method_fails_alone_or_with_all_others(
    service: MetricService, client: MetricServiceClient
) -> None:
    service.fail_with(answers.missing_role("a.b"), method=DESCRIBING)
    write_one(client)
    with pytest.raises(exceptions.PermissionDenied, match="a.b denied"):
        client.get_monitored_resource_descriptor(name=POD_TYPE)

    service.fail_with(answers.api_disabled(), times=None, method=EVERY_METHOD)
    with pytest.raises(exceptions.PermissionDenied):
        client.get_monitored_resource_descriptor(name=POD_TYPE)
    with pytest.raises(exceptions.PermissionDenied):
        write_one(client, end=NOW + 60.0)


def test_a_resource_type_is_described(client: MetricServiceClient) -> None:
    found = client.get_monitored_resource_descriptor(name=POD_TYPE)

    assert (found.name, found.type) == (POD_TYPE, "k8s_pod")
    assert {label.key for label in found.labels} == {
        "project_id",
        "location",
        "cluster_name",
        "namespace_name",
        "pod_name",
    }


@pytest.mark.parametrize(
    "name",
    [
        f"{PROJECT}/monitoredResourceDescriptors/container",
        "projects/other/monitoredResourceDescriptors/k8s_pod",
    ],
)
def test_what_is_not_there_is_not_described(
    client: MetricServiceClient, name: str
) -> None:
    with pytest.raises(exceptions.NotFound):
        client.get_monitored_resource_descriptor(name=name)


def _asked(text: str, start: float, end: float) -> ListTimeSeriesRequest:
    interval = {
        "start_time": {"seconds": int(start)},
        "end_time": {"seconds": int(end)},
    }
    return ListTimeSeriesRequest(name=PROJECT, filter=text, interval=interval)


ALL = f'metric.type = "{METRIC}"'


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (ALL, [[3.0, 2.0], [4.0]]),
        (f"metric.type={METRIC}", [[3.0, 2.0], [4.0]]),
        (f'{ALL} AND resource.type = "gce_instance"', [[3.0, 2.0]]),
        (f'{ALL} AND metric.labels.model = "b"', [[4.0]]),
        (f'{ALL} AND resource.label.zone = "{PLACE["zone"]}"', [[3.0, 2.0]]),
        (f'{ALL} AND resource.type = "k8s_pod"', []),
        (f'{ALL} AND resource.labels.project_id = "a-project"', [[3.0, 2.0], [4.0]]),
    ],
)
def test_series_are_listed_newest_point_first(
    client: MetricServiceClient, text: str, values: list[list[float]]
) -> None:
    for value in (1.0, 2.0, 3.0):
        first = gauge(value, end=NOW + 10 * value, labels={"model": "a"})
        client.create_time_series(name=PROJECT, time_series=[first])
    other = gauge(4.0, end=NOW + 20, labels={"model": "b"}, resource="global", place={})
    client.create_time_series(name=PROJECT, time_series=[other])

    found = list(client.list_time_series(request=_asked(text, NOW + 20, NOW + 30)))

    assert [
        [point.value.double_value for point in series.points] for series in found
    ] == values
    assert all(series.resource.labels["project_id"] == "a-project" for series in found)


@pytest.mark.parametrize(
    "text", ["", "nonsense", 'resource.type = "global"', f"{ALL} OR {ALL}"]
)
def test_a_filter_has_a_form(client: MetricServiceClient, text: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="Field filter"):
        client.list_time_series(request=_asked(text, NOW, NOW))


def test_a_list_needs_an_end(client: MetricServiceClient) -> None:
    asked = ListTimeSeriesRequest(name=PROJECT, filter=ALL)
    with pytest.raises(exceptions.InvalidArgument, match="field interval.endTime"):
        client.list_time_series(request=asked)


def test_whole_numbers_are_listed_as_such(client: MetricServiceClient) -> None:
    whole = gauge(points=[{**ONE, "value": {"int64_value": 3}}])
    client.create_time_series(name=PROJECT, time_series=[whole])

    (found,) = client.list_time_series(request=_asked(ALL, NOW, NOW))

    assert found.points[0].value.int64_value == 3
    assert found.value_type == MetricDescriptor.ValueType.INT64
