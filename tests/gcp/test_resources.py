"""Every rule for a resource is enforced, seen through the real client."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.gcp.clients import Write, refusal
from tests.gcp.makers import NOW, PLACE, gauge
from tests.gcp.metric_service import MetricService

POD = {
    "location": "us-central1",
    "cluster_name": "a",
    "namespace_name": "b",
    "pod_name": "c",
}
TASK = {"location": "global", "namespace": "", "job": "a", "task_id": "b"}


UNKNOWN_PLACE = "Unrecognized region or location."


@pytest.mark.parametrize(
    ("resource", "place", "text"),
    [
        ("container", {}, 'of "container": Unrecognized resource name.'),
        ("gce_instance", {"zone": "us-east1-b"}, "Missing labels: (instance_id)."),
        (
            "k8s_container",
            {"location": "us-east1", "cluster_name": "a"},
            "The set of resource labels is incomplete. Missing labels: "
            "(container_name namespace_name pod_name).",
        ),
        ("k8s_pod", {**POD, "pod_id": "1"}, "Unrecognized resource label: pod_id"),
        ("global", {"zone": "us-east1-b"}, "Unrecognized resource label: zone"),
        (
            "gce_instance",
            {**PLACE, "zone": "projects/1/zones/us-east1-b"},
            UNKNOWN_PLACE,
        ),
        ("gce_instance", {**PLACE, "zone": "us-east1"}, UNKNOWN_PLACE),
        ("gce_instance", {**PLACE, "zone": ""}, UNKNOWN_PLACE),
        ("k8s_pod", {**POD, "location": "my-cellar1"}, UNKNOWN_PLACE),
        ("k8s_pod", {**POD, "location": "global"}, UNKNOWN_PLACE),
        ("generic_task", {**TASK, "location": ""}, UNKNOWN_PLACE),
        ("generic_task", {**TASK, "location": "here"}, UNKNOWN_PLACE),
        ("gce_instance", {**PLACE, "instance_id": "gpu-worker-1"}, "the number of"),
        (
            "gce_instance",
            {**PLACE, "project_id": "other"},
            "or ID in the request name.",
        ),
    ],
)
def test_a_resource_is_known_and_complete(
    write: Write, resource: str, place: Mapping[str, str], text: str
) -> None:
    assert text in refusal(write, gauge(resource=resource, place=place))


@pytest.mark.parametrize(
    ("resource", "place"),
    [
        ("gce_instance", {**PLACE, "zone": "europe-west10-a"}),
        ("gce_instance", {**PLACE, "zone": "us-south1-ai1b"}),
        ("k8s_pod", {**POD, "location": "northamerica-northeast1"}),
        ("k8s_container", {**POD, "location": "me-west1-c", "container_name": "d"}),
        ("k8s_node", {"location": "us-east1", "cluster_name": "a", "node_name": "b"}),
        ("k8s_cluster", {"location": "us-east1", "cluster_name": "a"}),
        ("generic_task", TASK),
        ("generic_task", {**TASK, "location": "aws:us-east-1a"}),
        ("generic_node", {"location": "us-east1", "namespace": "", "node_id": "a"}),
        ("global", {}),
    ],
)
def test_these_resources_do(
    write: Write, resource: str, place: Mapping[str, str]
) -> None:
    write(gauge(resource=resource, place=place))


def test_the_project_may_be_a_label_and_makes_no_other_series(
    service: MetricService, write: Write
) -> None:
    write(gauge(place={**PLACE, "project_id": "a-project"}))
    write(gauge(end=NOW + 5.0))

    assert [len(points) for points in service.accepted.values()] == [2]
