from __future__ import annotations

import grpc
import pytest
from google.api_core import exceptions as api
from google.auth.exceptions import (
    DefaultCredentialsError,
    RefreshError,
    TransportError,
)
from google.cloud.monitoring_v3.types import Point, TimeInterval, TimeSeries
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from sidecar.errors import SinkError
from sidecar.sinks.cloud_monitoring.refusals import Refusal, read
from sidecar.sinks.cloud_monitoring.remedies import Used
from tests.gcp import answers
from tests.gcp.clients import client_of
from tests.unit.cloud_monitoring.bench import LABELS, Bench
from tests.unit.cloud_monitoring.conftest import Made

ACCOUNT = "worker@a-project.iam.gserviceaccount.com"


def refusal(error: Exception) -> Refusal:
    return read(error, Used("a-project", ACCOUNT))


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (
            answers.missing_role(),
            "permission",
            ["monitoring.timeSeries.create", "roles/monitoring.metricWriter"],
        ),
        (answers.insufficient_scope(), "scope", ["monitoring.write", "scope"]),
        (
            answers.api_disabled(),
            "api_disabled",
            ["gcloud services enable monitoring.googleapis.com --project a-project"],
        ),
        (answers.no_project("projects/x"), "project", ["_PROJECT"]),
        (answers.quota(), "quota", ["quota", "_INTERVAL"]),
        (answers.unavailable(), "unavailable", ["cannot be reached"]),
        (answers.internal(), "internal", ["Please retry"]),
        (answers.unauthenticated(), "credentials", ["refused"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_and_what_to_do(
    bench: Bench, answer: Status, reason: str, words: list[str]
) -> None:
    bench.service.fail_with(answer, times=None)
    error = bench.refused()

    assert error.reason == reason
    assert all(word in str(error) for word in words), str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("settings", "reason", "words"),
    [
        (
            {
                "resource_type": "gce_instance",
                "resource_labels": {
                    "instance_id": "1",
                    "zone": "projects/1/zones/us-central1-a",
                },
            },
            "location",
            ["Unrecognized region or location", "us-central1-a"],
        ),
        (
            {"resource_labels": {**LABELS, "location": "here"}},
            "location",
            ["Unrecognized region or location", "_RESOURCE_LABELS"],
        ),
    ],
)
def test_a_resource_that_the_service_does_not_take(
    made: Made, settings: dict[str, object], reason: str, words: list[str]
) -> None:
    error = made(**settings).refused()

    assert error.reason == reason
    assert "3 of 3 points are refused" in str(error)
    assert all(word in str(error) for word in words), str(error)


def test_a_metric_that_is_there_with_another_type(bench: Bench) -> None:
    """The first point ever written fixed it."""
    with client_of(bench.service.endpoint) as client:
        client.create_time_series(
            name="projects/a-project", time_series=[whole_number(bench.now)]
        )

    error = bench.refused()

    assert error.reason == "metric_type"
    assert "1 of 3 points are refused" in str(error)
    assert "SIDECAR_CLOUD_MONITORING_PREFIX" in str(error)


def whole_number(now: float) -> TimeSeries:
    """As another program may have written it."""
    metric = {"type": "custom.googleapis.com/llm_worker_capacity"}
    interval = TimeInterval(end_time={"seconds": int(now)})
    return TimeSeries(
        metric=metric,
        resource={"type": "generic_task", "labels": LABELS},
        points=[Point(interval=interval, value={"int64_value": 12})],
    )


def test_another_writer_hides_nothing_else(bench: Bench) -> None:
    """Of two things that are wrong, the one that needs somebody is said."""
    other = bench.restarted()
    other.publish(bench.readings())
    other.close()
    with client_of(bench.service.endpoint) as client:
        number = whole_number(bench.now)
        number.metric.type = "custom.googleapis.com/llm_worker_running"
        client.create_time_series(name="projects/a-project", time_series=[number])
    bench.sink.close()
    words = (*bench.settings.metrics, "running")
    bench.settings = bench.settings.model_copy(update={"metrics": words})
    bench.sink = bench.restarted()
    bench.now += 2

    with pytest.raises(SinkError) as told:
        bench.sink.publish(bench.readings(running=3.0))

    assert told.value.reason == "metric_type"
    assert "4 of 4 points" in str(told.value)


def test_the_account_is_named() -> None:
    text = refusal(api.Forbidden("no")).text  # type: ignore[no-untyped-call]

    assert f"grant roles/monitoring.metricWriter to {ACCOUNT}" in text


def test_and_where_it_is_not_known() -> None:
    found = read(api.Forbidden("no"), Used("a-project", "default"))  # type: ignore[no-untyped-call]

    assert "to its service account in the project a-project" in found.text


@pytest.mark.parametrize(
    ("error", "file", "words"),
    [
        (
            DefaultCredentialsError("not found"),  # type: ignore[no-untyped-call]
            None,
            "elsewhere set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            DefaultCredentialsError("not JSON"),  # type: ignore[no-untyped-call]
            "/key.json",
            "GOOGLE_APPLICATION_CREDENTIALS='/key.json' cannot be used: not JSON",
        ),
        (RefreshError("invalid_grant"), "/key.json", "is the clock right?"),  # type: ignore[no-untyped-call]
        (TransportError("refused"), None, "the token server, the metadata server"),  # type: ignore[no-untyped-call]
        (
            api.ServiceUnavailable("Getting metadata from plugin failed with error: x"),  # type: ignore[no-untyped-call]
            None,
            "may this machine or pod use it?",
        ),
    ],
)
def test_no_credentials(error: Exception, file: str | None, words: str) -> None:
    found = read(error, Used("a-project", ACCOUNT, file))

    assert found.reason == "credentials"
    assert found.renew
    assert not found.again
    assert words in found.text


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        ("This API method requires billing to be enabled.", "billing", "billing for"),
        (
            "Request is prohibited by organization's policy. vpcServiceControls...",
            "policy",
            "VPC Service Controls",
        ),
        (
            "Permission monitoring.monitoredResourceDescriptors.get denied (or the "
            "resource may not exist).",
            "permission",
            "permission monitoring.monitoredResourceDescriptors.get is missing",
        ),
    ],
)
def test_what_forbids_it(bench: Bench, message: str, reason: str, words: str) -> None:
    bench.service.fail(grpc.StatusCode.PERMISSION_DENIED, message)
    error = bench.refused()

    assert error.reason == reason
    assert words in str(error)


def test_what_nobody_thought_of_is_said_as_it_is(bench: Bench) -> None:
    bench.service.fail(grpc.StatusCode.FAILED_PRECONDITION, "a new rule")
    error = bench.refused()

    assert error.reason == "failed_precondition"
    assert "a new rule" in str(error)


def test_an_essay_is_cut(bench: Bench) -> None:
    bench.service.fail(grpc.StatusCode.ABORTED, "word " * 500)

    assert len(str(bench.refused())) < 400
