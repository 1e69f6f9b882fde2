"""That the three ways of packaging/kubernetes/gke hold together."""

from __future__ import annotations

import re

import pytest

from sidecar.environment import load
from tests.packaging.documents import GKE, documents
from tests.packaging.rendering import (
    Document,
    environ,
    objects,
    only,
    pasted,
    sidecar,
)
from tests.packaging.schemas import GOOGLES

WAYS = {
    "cloud-monitoring": "llm_worker_utilization",
    "managed-prometheus": "prometheus.googleapis.com|llm_worker_utilization|gauge",
    "autoscaling-metric": "autoscaling.gke.io|capacity-sidecar|utilization",
}
PORT = 9846


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rendered(way: str, tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """What `kubectl apply -k my-worker` of the page would apply."""
    checkout = tmp_path_factory.mktemp("checkout")
    return pasted(GKE / "README.md", checkout, WAY=way, NAMESPACE="llm")


class TestFiles:
    def test_a_way_for_each_name(self) -> None:
        page = (GKE / "README.md").read_text("utf-8")

        for way, metric in WAYS.items():
            assert (GKE / way / "kustomization.yaml").exists()
            assert f"export WAY={way}\n" in page
            assert f"`{metric}`" in page
            assert f"`{way}`" in page

    def test_the_name_of_the_autoscaling_metric(self) -> None:
        (metric,) = documents(GKE / "autoscaling-metric" / "autoscalingmetric.yaml")
        (gauge,) = (node for name, node in objects(metric) if name == "gauge")

        name = f"autoscaling.gke.io|{metric['metadata']['name']}|{gauge['name']}"
        assert name == WAYS["autoscaling-metric"]


class TestRendered:
    def test_it_writes_to_cloud_monitoring_where_nobody_scrapes_it(
        self, way: str, rendered: list[Document]
    ) -> None:
        container = sidecar(only("Deployment", rendered))
        names = {each["name"] for each in container["env"]}
        values = environ(container, dict.fromkeys(_fields(container), "1"))
        del values["SIDECAR_STATE_FILE"]

        sinks = load(values).settings.sinks or ()

        assert ("cloud_monitoring" in sinks) == (way == "cloud-monitoring")
        assert {"POD_NAME", "POD_NAMESPACE"} <= names

    def test_the_hpa_asks_for_the_way_s_metric(
        self, way: str, rendered: list[Document]
    ) -> None:
        (metric,) = only("HorizontalPodAutoscaler", rendered)["spec"]["metrics"]

        assert metric["pods"]["metric"]["name"] == WAYS[way]

    def test_the_worker_gets_a_gpu_of_gke(self, rendered: list[Document]) -> None:
        pod = only("Deployment", rendered)["spec"]["template"]["spec"]

        assert pod["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-l4"}

    def test_what_is_scraped_is_the_sidecar_of_this_pod(
        self, way: str, rendered: list[Document]
    ) -> None:
        if way == "cloud-monitoring":
            assert not [each for each in rendered if each["kind"] in GOOGLES]
            return
        (scraper,) = (each for each in rendered if each["kind"] in GOOGLES)
        nodes = [node for _, node in objects(scraper)]
        selectors = [node["matchLabels"] for node in nodes if "matchLabels" in node]
        ports = [node["port"] for node in nodes if "port" in node]
        labels = only("Deployment", rendered)["spec"]["template"]["metadata"]["labels"]

        assert ports == [PORT]
        if way == "managed-prometheus":
            # Without it the adapter finds no series of the pod.
            assert scraper["spec"]["targetLabels"]["metadata"] == ["pod"]
        for selector in selectors:
            assert selector.items() <= labels.items()
            # What GKE allows in an AutoscalingMetric.
            assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in selector)


def _fields(container: Document) -> list[str]:
    """The paths of the downward API that a container reads."""
    return [
        each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container["env"]
        if "valueFrom" in each
    ]
