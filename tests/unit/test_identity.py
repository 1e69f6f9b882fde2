from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import SinkError
from sidecar.identity import PATIENCE, RESOURCE_LABELS, Surroundings
from sidecar.metadata import MetadataServer as Metadata
from tests.cases.servers import Answer, Server, always
from tests.gcp import resources
from tests.gcp.metadata_server import MetadataServer
from tests.gcp.metadata_values import gce, gke

POD = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "POD_NAME": "vllm-0",
    "POD_NAMESPACE": "inference",
}


class Place:
    """A machine or pod with its clock, its files and its metadata server."""

    def __init__(self, folder: Path, values: Mapping[str, str]) -> None:
        self.server = MetadataServer(values)
        self.now = 100.0
        self.product, self.namespace = folder / "product_name", folder / "namespace"
        self.environ: dict[str, str] = {}

    def surroundings(self, *, host: bool = True, hostname: str = "gpu-1") -> Any:
        environ = {**self.environ}
        metadata = Metadata({"GCE_METADATA_HOST": self.server.host})
        if not host:
            metadata.is_set = False
        return Surroundings(
            environ, hostname, metadata, lambda: self.now, self.product, self.namespace
        )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, gce())
    with place.server:
        yield place


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, gke())
    place.environ = {**POD}
    with place.server:
        yield place


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[Place]:
    """The port of the metadata server refuses connections."""
    place = Place(tmp_path, gce())
    yield place
    place.server.close()


def test_the_labels_are_those_of_the_service() -> None:
    for kind, labels in RESOURCE_LABELS.items():
        assert {*labels} == {*resources.LABELS[kind]} - {"project_id"}


class TestAuto:
    def test_a_machine(self, machine: Place) -> None:
        found = machine.surroundings().resource("auto", {})

        assert found.type == "gce_instance"
        assert found.labels == {
            "instance_id": "4520031799277581759",
            "zone": "us-central1-a",
        }

    def test_a_pod(self, pod: Place) -> None:
        found = pod.surroundings().resource("auto", {})

        assert found.type == "k8s_pod"
        assert found.labels == {
            "location": "us-central1",
            "cluster_name": "a-cluster",
            "namespace_name": "inference",
            "pod_name": "vllm-0",
        }

    def test_a_pod_without_the_downward_api(self, pod: Place) -> None:
        """Its host name is its name, and Kubernetes puts its namespace in a file."""
        pod.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        pod.namespace.write_text("inference\n")

        labels = pod.surroundings(hostname="vllm-7").resource("auto", {}).labels

        assert (labels["namespace_name"], labels["pod_name"]) == ("inference", "vllm-7")

    def test_a_pod_whose_namespace_nobody_tells(self, pod: Place) -> None:
        pod.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

        with pytest.raises(SinkError, match=r"needs namespace_name.*LABELS=namespace"):
            pod.surroundings().resource("auto", {})

    def test_a_pod_on_machines_without_gke(self, machine: Place) -> None:
        machine.environ = {**POD}

        found = machine.surroundings().resource("auto", {})

        assert found.type == "generic_task"
        assert found.labels == {
            "location": "us-central1-a",
            "namespace": "inference",
            "job": "capacity-sidecar",
            "task_id": "vllm-0",
        }

    def test_elsewhere(self, nowhere: Place) -> None:
        found = nowhere.surroundings(host=False).resource("auto", {})

        assert found.type == "generic_task"
        assert found.labels == {
            "location": "global",
            "namespace": "default",
            "job": "capacity-sidecar",
            "task_id": "gpu-1",
        }

    def test_it_is_found_out_once(self, machine: Place) -> None:
        surroundings = machine.surroundings()
        surroundings.resource("auto", {})
        asked = len(machine.server.requests)

        assert surroundings.resource("auto", {}).type == "gce_instance"
        assert surroundings.project == "a-project"
        assert len(machine.server.requests) == asked

    def test_a_restart_finds_the_same(self, pod: Place) -> None:
        first, second = (pod.surroundings().resource("auto", {}) for _ in range(2))

        assert first == second


class TestAsked:
    def test_a_task_of_a_group(self, tmp_path: Path) -> None:
        """The job is the group, so that an autoscaler can filter by it."""
        place = Place(tmp_path, gce(group="pool"))
        with place.server:
            labels = place.surroundings().resource("generic_task", {}).labels

        assert labels == {
            "location": "us-central1-a",
            "namespace": "default",
            "job": "pool",
            "task_id": "gpu-worker-1",
        }

    def test_a_container(self, pod: Place) -> None:
        pod.environ["CONTAINER_NAME"] = "sidecar"

        labels = pod.surroundings().resource("k8s_container", {}).labels

        assert labels["container_name"] == "sidecar"

    def test_the_node_s_name_comes_from_its_host_name_where_it_must(
        self, tmp_path: Path
    ) -> None:
        """Clusters with Workload Identity may not tell ``instance/name``."""
        place = Place(tmp_path, gke())
        with place.server:
            labels = place.surroundings().resource("generic_node", {}).labels

        assert labels["node_id"].startswith("gke-a-cluster")

    def test_a_setting_wins(self, machine: Place) -> None:
        found = machine.surroundings().resource("auto", {"instance_id": "7"})

        assert found.labels["instance_id"] == "7"

    def test_settings_alone_ask_nobody(self, nowhere: Place) -> None:
        labels = {"instance_id": "7", "zone": "us-central1-b"}
        nowhere.product.write_text("Google Compute Engine\n")

        found = nowhere.surroundings().resource("gce_instance", labels)

        assert found.labels == labels

    def test_a_label_that_the_found_type_has_not(self, machine: Place) -> None:
        with pytest.raises(SinkError, match="gce_instance has no label pod_name"):
            machine.surroundings().resource("auto", {"pod_name": "x"})

    def test_what_is_not_known_is_said(self, nowhere: Place) -> None:
        with pytest.raises(SinkError, match="gce_instance needs instance_id, zone"):
            nowhere.surroundings(host=False).resource("gce_instance", {})

    @pytest.mark.parametrize(
        ("zone", "found"),
        [
            ("us-central1-ai1a", "us-central1-ai1a"),
            ("us-central1-1", "us-central1"),
            ("nowhere", "global"),
        ],
    )
    def test_a_zone_that_is_none(self, tmp_path: Path, zone: str, found: str) -> None:
        place = Place(tmp_path, gce(zone=zone))
        with place.server:
            labels = place.surroundings().resource("generic_task", {}).labels

        assert labels["location"] == found

    def test_a_platform_with_another_kind_of_id(self, tmp_path: Path) -> None:
        """Cloud Run, say."""
        place = Place(tmp_path, gce(instance_id="00bf4bf02d", zone="us-central1-1"))
        with place.server:
            assert place.surroundings().resource("auto", {}).type == "generic_task"

    def test_what_the_metadata_server_need_not_tell(self, nowhere: Place) -> None:
        """A network policy may block it."""
        nowhere.environ = {**POD}
        told = {"location": "us-central1", "cluster_name": "c"}

        labels = nowhere.surroundings().resource("k8s_pod", told).labels

        assert (labels["pod_name"], labels["namespace_name"]) == ("vllm-0", "inference")


class TestLate:
    def test_a_machine_of_google_s_waits(self, nowhere: Place) -> None:
        nowhere.product.write_text("Google Compute Engine\n")
        surroundings = nowhere.surroundings(host=False)

        for _ in range(3):
            nowhere.now += PATIENCE
            with pytest.raises(SinkError, match="does not answer"):
                surroundings.resource("auto", {})
        nowhere.server.start()

        assert surroundings.resource("auto", {}).type == "gce_instance"

    def test_a_pod_waits_a_minute(self, nowhere: Place) -> None:
        """Longer than a new pod's metadata server takes; elsewhere there is none."""
        nowhere.environ = {**POD}
        surroundings = nowhere.surroundings(host=False)

        with pytest.raises(SinkError) as told:
            surroundings.resource("auto", {})
        nowhere.now += PATIENCE

        assert told.value.reason == "metadata"
        assert surroundings.resource("auto", {}).type == "generic_task"

    def test_and_goes_on_asking(self, nowhere: Place) -> None:
        nowhere.environ = {**POD}
        nowhere.server.values = gke()
        surroundings = nowhere.surroundings(host=False)
        with pytest.raises(SinkError):
            surroundings.resource("auto", {})
        nowhere.now += PATIENCE
        assert surroundings.resource("auto", {}).type == "generic_task"
        nowhere.server.start()
        nowhere.now += PATIENCE

        assert surroundings.resource("auto", {}).type == "k8s_pod"
        assert surroundings.project == "a-project"

    def test_it_answers_with_an_error_first(self, pod: Place) -> None:
        pod.server.refuse_first, pod.server.refuse_with = 1, 503
        surroundings = pod.surroundings(host=False)

        with pytest.raises(SinkError, match="status 503"):
            surroundings.resource("auto", {})

        assert surroundings.resource("auto", {}).type == "k8s_pod"

    def test_a_host_that_is_none(self) -> None:
        with pytest.raises(SinkError, match="no connection"):
            Metadata({"GCE_METADATA_HOST": "a..b"}).read("project/project-id")

    def test_another_server_is_not_believed(self) -> None:
        """A captive portal, say, answers everything."""
        portal = Server(always(Answer(body=b"<html>")))
        try:
            with pytest.raises(SinkError, match="it is another server"):
                Metadata({"GCE_METADATA_HOST": f"127.0.0.1:{portal.port}"}).read("x")
        finally:
            portal.close()

    def test_what_is_forbidden_is_not_known(self, machine: Place) -> None:
        """Some clusters hide what their nodes are from their pods."""
        machine.server.fail("instance/name", 403)

        labels = machine.surroundings().resource("generic_task", {}).labels

        assert labels["task_id"] == "gpu-worker-1"
