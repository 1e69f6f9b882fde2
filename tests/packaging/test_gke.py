"""That the three ways of packaging/kubernetes/gke hold together."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.environment import load
from tests.packaging.documents import GKE, documents, shell_blocks

Document = dict[str, Any]

IMAGE = "europe-docker.pkg.dev/a-project/a-repository/capacity-sidecar:1.2.3"
WAYS = {
    "cloud-monitoring": "llm_worker_utilization",
    "managed-prometheus": "prometheus.googleapis.com|llm_worker_utilization|gauge",
    "autoscaling-metric": "autoscaling.gke.io|capacity-sidecar|utilization",
}
PORT = 9846

# Fields by prometheus-engine's doc/api.md (PodMonitoringSpec, ScrapeEndpoint,
# RelabelingRule, TargetLabels), and by GKE's page "Expose custom metrics for
# autoscaling". Neither is in any validator's catalogue.
FIELDS = {
    "PodMonitoring": {
        "selector": {"matchLabels", "matchExpressions"},
        "endpoints": {
            *("port", "scheme", "path", "params", "interval", "timeout"),
            "metricRelabeling",
        },
        "metricRelabeling": {
            *("sourceLabels", "separator", "targetLabel", "regex", "modulus"),
            *("replacement", "action"),
        },
        "targetLabels": {"metadata", "fromPod"},
        "spec": {"selector", "endpoints", "targetLabels", "limits", "filterRunning"},
    },
    "AutoscalingMetric": {
        "spec": {"metrics"},
        "pod": {"selector", "containers"},
        "selector": {"matchLabels"},
        "containers": {"endpoint", "metrics"},
        "endpoint": {"port", "path"},
        "gauge": {"name", "prometheusMetricName"},
    },
}


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rendered(way: str, tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """What `kubectl apply -k my-worker` of the page would apply."""
    tmp_path = tmp_path_factory.mktemp("checkout")
    if not (kubectl := shutil.which("kubectl")):
        pytest.skip("kubectl is not installed")
    (tmp_path / "packaging").symlink_to(GKE.parent.parent)
    (block,) = (each for each in shell_blocks(GKE / "README.md") if "<<END" in each)
    environ = {"WAY": way, "NAMESPACE": "llm", "IMAGE": IMAGE, "PATH": "/usr/bin:/bin"}
    subprocess.run(
        ["bash", "-euc", f"kubectl() {{ :; }}\n{block}"],
        cwd=tmp_path,
        env=environ,
        check=True,
    )
    output = subprocess.run(
        [kubectl, "kustomize", "my-worker"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return list(yaml.safe_load_all(output))


def _only(kind: str, all_documents: list[Document]) -> Document:
    (document,) = (each for each in all_documents if each["kind"] == kind)
    return document


def _pod(all_documents: list[Document]) -> Document:
    template: Document = _only("Deployment", all_documents)["spec"]["template"]
    return template


def _objects(node: Any, name: str = "") -> Iterator[tuple[str, Document]]:
    """Every object in a document, with the field that it stands in."""
    if isinstance(node, dict):
        yield name, node
        for key, value in node.items():
            yield from _objects(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _objects(value, name)


class TestFiles:
    @pytest.mark.parametrize(
        "path", sorted(GKE.rglob("*.yaml")), ids=lambda path: path.parent.name
    )
    def test_every_file_is_yaml_and_is_used(self, path: Path) -> None:
        assert documents(path)
        if path.name != "kustomization.yaml":
            kustomization = path.parent / "kustomization.yaml"
            assert path.name in kustomization.read_text("utf-8")

    @pytest.mark.parametrize(
        "path",
        sorted(GKE.rglob("kustomization.yaml")),
        ids=lambda path: path.parent.name,
    )
    def test_what_a_kustomization_names_is_there(self, path: Path) -> None:
        (kustomization,) = documents(path)
        names = [
            *kustomization.get("resources", ()),
            *kustomization.get("components", ()),
            *(
                each["path"]
                for each in kustomization.get("patches", ())
                if "path" in each
            ),
        ]

        assert names
        assert all((path.parent / name).exists() for name in names)

    def test_a_way_for_each_name(self) -> None:
        page = (GKE / "README.md").read_text("utf-8")

        for way, metric in WAYS.items():
            assert (GKE / way / "kustomization.yaml").exists()
            assert f"export WAY={way}\n" in page
            assert f"`{metric}`" in page
            assert f"`{way}`" in page

    def test_the_name_of_the_autoscaling_metric(self) -> None:
        (metric,) = documents(GKE / "autoscaling-metric" / "autoscalingmetric.yaml")
        (gauge,) = (node for name, node in _objects(metric) if name == "gauge")

        name = f"autoscaling.gke.io|{metric['metadata']['name']}|{gauge['name']}"
        assert name == WAYS["autoscaling-metric"]

    @pytest.mark.parametrize("kind", FIELDS)
    def test_fields_of_googles_own_kinds(self, kind: str) -> None:
        (document,) = (
            each
            for path in GKE.rglob("*.yaml")
            for each in documents(path)
            if each.get("kind") == kind
        )

        for name, node in _objects(document["spec"], "spec"):
            if name in FIELDS[kind]:
                assert set(node) <= FIELDS[kind][name], name


class TestRendered:
    def test_the_sidecar_does_not_keep_the_worker_from_starting_or_serving(
        self, rendered: list[Document]
    ) -> None:
        """Its start-up probe would hold the worker back; its readiness is the pod's."""
        (sidecar,) = _pod(rendered)["spec"]["initContainers"]

        assert sidecar["restartPolicy"] == "Always"
        assert sidecar["image"] == IMAGE
        assert not {"startupProbe", "readinessProbe"} & set(sidecar)
        assert sidecar["livenessProbe"]["httpGet"]["path"] == "/healthz"

    def test_the_sidecar_has_no_rights(self, rendered: list[Document]) -> None:
        (sidecar,) = _pod(rendered)["spec"]["initContainers"]

        assert sidecar["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }

    def test_its_settings_are_valid(self, way: str, rendered: list[Document]) -> None:
        template = _pod(rendered)
        (sidecar,) = template["spec"]["initContainers"]
        environ = {each["name"]: each.get("value") for each in sidecar["env"]}
        annotation = template["metadata"]["annotations"][
            "capacity-sidecar/max-concurrency"
        ]
        (worker,) = template["spec"]["containers"]

        settings = load({k: v or annotation for k, v in environ.items()}).settings

        assert f"--max-num-seqs={annotation}" in worker["args"]
        assert settings.max_concurrency == int(annotation)
        assert environ["SIDECAR_LISTEN"] == f"0.0.0.0:{PORT}"
        assert f"--port={environ['SIDECAR_METRICS_PORT']}" in worker["args"]
        writes = "cloud_monitoring" in (settings.sinks or ())
        assert writes == (way == "cloud-monitoring")
        assert {"POD_NAME", "POD_NAMESPACE"} <= set(environ)

    def test_the_hpa_asks_for_the_way_s_metric(
        self, way: str, rendered: list[Document]
    ) -> None:
        spec = _only("HorizontalPodAutoscaler", rendered)["spec"]
        deployment = _only("Deployment", rendered)
        (metric,) = spec["metrics"]

        assert spec["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
        assert "replicas" not in deployment["spec"]
        assert metric["type"] == "Pods"
        assert metric["pods"]["metric"]["name"] == WAYS[way]
        assert metric["pods"]["target"] == {
            "type": "AverageValue",
            "averageValue": "700m",
        }

    def test_what_is_scraped_is_the_sidecar_of_this_pod(
        self, way: str, rendered: list[Document]
    ) -> None:
        if way == "cloud-monitoring":
            assert not [each for each in rendered if each["kind"] in FIELDS]
            return
        (scraper,) = (each for each in rendered if each["kind"] in FIELDS)
        objects = [node for _, node in _objects(scraper)]
        selectors = [node["matchLabels"] for node in objects if "matchLabels" in node]
        ports = [node["port"] for node in objects if "port" in node]

        assert ports == [PORT]
        for selector in selectors:
            assert selector.items() <= _pod(rendered)["metadata"]["labels"].items()
            # What GKE allows in an AutoscalingMetric.
            assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in selector)

    def test_they_fit_kubernetes_schemas(self, rendered: list[Document]) -> None:
        validator = pytest.importorskip("kubernetes_validate")

        for document in rendered:
            if document["kind"] not in FIELDS:
                # The oldest release for AutoscalingMetric; native sidecars are older.
                validator.validate(document, "1.35", strict=True)
