"""That the components of packaging/kubernetes hold together, those for GKE as well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from sidecar.environment import load
from tests.packaging.documents import GKE, KUBERNETES, ROOT, documents
from tests.packaging.rendering import (
    IMAGE,
    SCALERS,
    Document,
    environ,
    exported,
    of_a_pod,
    only,
    pasted,
    sidecar,
)
from tests.packaging.schemas import custom_kinds, validate

PORT = 9846
TOO_OLD = 120
"""Seconds, from which on the rules leave a reading out."""
README = KUBERNETES / "README.md"


class Way(NamedTuple):
    """A component that a page puts in place of $WAY."""

    page: Path
    name: str


WAYS = [
    *(Way(GKE, name) for name in ("cloud-monitoring", "managed-prometheus")),
    Way(GKE, "autoscaling-metric"),
    *(Way(KUBERNETES, name) for name in ("keda", "prometheus-adapter", "sidecar")),
    Way(ROOT, "sidecar"),
]
TAGS = ("1.10", "2024", "1e5", "0x10", "true", "v0.1.0")


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture(scope="module")
def rendered(way: Way, tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """What `kubectl apply -k my-worker` of the page would apply."""
    page = way.page / "README.md"
    named = {**exported(page), "WAY": way.name, "IMAGE": IMAGE}
    return pasted(page, tmp_path_factory.mktemp("checkout"), **named)


def measured(way: Way) -> int:
    """MiB resident, as the comment beside the numbers has it."""
    sink = way.page / way.name / "sink.yaml"
    file = sink if sink.exists() else KUBERNETES / "sidecar" / "sidecar.yaml"
    (found,) = re.findall(r"# .*\b(\d+) MiB\b", file.read_text("utf-8"))
    return int(found)


class TestFiles:
    @pytest.mark.parametrize(
        "path",
        sorted(KUBERNETES.rglob("*.yaml")),
        ids=lambda path: f"{path.parent.name}-{path.name}",
    )
    def test_every_file_is_yaml_and_is_used(self, path: Path) -> None:
        assert documents(path)
        users = [path.parent / "kustomization.yaml", README]
        if path.name != "kustomization.yaml":
            assert any(path.name in user.read_text("utf-8") for user in users)

    @pytest.mark.parametrize(
        "path",
        sorted(path.parent for path in KUBERNETES.rglob("kustomization.yaml")),
        ids=lambda path: str(path.relative_to(KUBERNETES)),
    )
    def test_every_folder_is_told_of(self, path: Path) -> None:
        """By a page, or by another folder that has it as a part."""
        pages = [README, GKE / "README.md", *KUBERNETES.rglob("kustomization.yaml")]
        others = (page for page in pages if page.parent != path)

        assert any(re.search(rf"\b{path.name}\b", p.read_text("utf-8")) for p in others)

    def test_links_lead_somewhere(self) -> None:
        for page in KUBERNETES.rglob("README.md"):
            for link in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
                assert (page.parent / link).exists(), link


class TestRendered:
    def test_it_fits_the_schemas(self, rendered: list[Document]) -> None:
        for document in rendered:
            validate(document)

    def test_the_sidecar_does_not_keep_the_worker_from_starting_or_serving(
        self, rendered: list[Document]
    ) -> None:
        """Its start-up probe would hold the worker back; its readiness is the pod's."""
        container = sidecar(only("Deployment", rendered))

        assert container["restartPolicy"] == "Always"
        assert container["image"] == IMAGE
        assert not {"startupProbe", "readinessProbe", "lifecycle"} & set(container)

    def test_one_that_hangs_is_started_anew_before_its_reading_is_too_old(
        self, rendered: list[Document]
    ) -> None:
        probe = sidecar(only("Deployment", rendered))["livenessProbe"]

        assert probe["httpGet"] == {"path": "/healthz", "port": "sidecar"}
        # Kubernetes' own default.
        failures = probe.get("failureThreshold", 3)
        assert probe["periodSeconds"] * failures < TOO_OLD
        # More often than that its CPU was not measured.
        assert probe["periodSeconds"] >= 15
        assert 1 < probe["timeoutSeconds"] < probe["periodSeconds"]

    def test_it_gets_the_memory_that_was_measured_and_more(
        self, way: Way, rendered: list[Document]
    ) -> None:
        resources = sidecar(only("Deployment", rendered))["resources"]
        asked, limit = (
            int(resources[name]["memory"].removesuffix("Mi"))
            for name in ("requests", "limits")
        )

        assert measured(way) < asked <= limit
        # Half a second of CPU is needed at the start: it has no limit.
        assert set(resources["limits"]) == {"memory"}

    def test_the_sidecar_has_no_rights(self, rendered: list[Document]) -> None:
        assert sidecar(only("Deployment", rendered))["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }

    def test_it_writes_to_its_own_volume_only(self, rendered: list[Document]) -> None:
        deployment = only("Deployment", rendered)
        container = sidecar(deployment)
        (mount,) = container["volumeMounts"]
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        state = environ(container)["SIDECAR_STATE_FILE"]

        assert Path(state).parent == Path(mount["mountPath"])
        # No size limit: to go beyond it would cost the worker's pod.
        assert {"name": mount["name"], "emptyDir": {}} in volumes
        (worker,) = deployment["spec"]["template"]["spec"]["containers"]
        assert mount["name"] not in {each["name"] for each in worker["volumeMounts"]}

    def test_its_settings_are_valid(
        self, rendered: list[Document], tmp_path: Path
    ) -> None:
        deployment = only("Deployment", rendered)
        values = environ(sidecar(deployment), of_a_pod(deployment))
        values["SIDECAR_STATE_FILE"] = str(tmp_path / "state.json")
        (worker,) = deployment["spec"]["template"]["spec"]["containers"]

        settings = load(values).settings

        assert settings.worker == "vllm-5d9c-x2x7q"
        assert settings.listen == f"0.0.0.0:{PORT}"
        assert f"--port={settings.metrics_port}" in worker["args"]
        assert settings.max_concurrency is not None
        assert f"--max-num-seqs={settings.max_concurrency:g}" in worker["args"]

    def test_without_the_annotation_no_limit_is_told(
        self, rendered: list[Document], tmp_path: Path
    ) -> None:
        values = environ(sidecar(only("Deployment", rendered)))
        values["SIDECAR_STATE_FILE"] = str(tmp_path / "state.json")

        assert load(values).settings.max_concurrency is None

    def test_what_scales_scales_this_worker(self, rendered: list[Document]) -> None:
        deployment = only("Deployment", rendered)
        scalers = [each for each in rendered if each["kind"] in SCALERS]

        assert "replicas" not in deployment["spec"]
        assert len(scalers) <= 1
        for each in scalers:
            # KEDA's default is a Deployment.
            scaled = {"kind": "Deployment", **each["spec"]["scaleTargetRef"]}
            assert scaled.pop("apiVersion", "apps/v1") == deployment["apiVersion"]
            assert scaled == {
                "kind": "Deployment",
                "name": deployment["metadata"]["name"],
            }
            assert each["metadata"]["namespace"] == deployment["metadata"]["namespace"]

    def test_what_is_scraped_is_the_sidecar_s_port(
        self, rendered: list[Document]
    ) -> None:
        deployment = only("Deployment", rendered)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        monitors = [each for each in rendered if each["kind"] == "PodMonitor"]

        for monitor in monitors:
            (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
            (port,) = sidecar(deployment)["ports"]
            assert endpoint["port"] == port["name"]
            assert port["containerPort"] == PORT
            assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
            assert monitor["metadata"]["labels"] == {
                "release": exported(README)["RELEASE"]
            }
            # A label of the target that the page has as well is taken from neither.
            added = {each["targetLabel"] for each in endpoint["relabelings"]}
            values = environ(sidecar(deployment))
            assert "SIDECAR_LABELS" not in values
            assert added == {"node"}


class TestImage:
    @pytest.mark.parametrize("tag", TAGS)
    @pytest.mark.parametrize(
        "way", [WAYS[0], WAYS[-2], WAYS[-1]], ids=["gke", "kubernetes", "root"]
    )
    def test_a_tag_that_looks_like_a_number_is_a_tag(
        self, way: Way, tag: str, tmp_path: Path
    ) -> None:
        page, image = way.page / "README.md", f"registry.example.com:5000/a/b:{tag}"
        named = {**exported(page), "WAY": way.name, "IMAGE": image}

        deployment = only("Deployment", pasted(page, tmp_path, **named))

        assert sidecar(deployment)["image"] == image


class TestCustomKinds:
    def test_the_schemas_are_those_that_are_used(self) -> None:
        used = {
            document["kind"]
            for path in KUBERNETES.rglob("*.yaml")
            for document in documents(path)
            if "kind" in document
        }

        assert custom_kinds() <= used

    @pytest.mark.parametrize("kind", sorted(custom_kinds()))
    def test_a_field_that_is_not_there_is_refused(self, kind: str) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        (document,) = (
            each
            for path in KUBERNETES.rglob("*.yaml")
            for each in documents(path)
            if each.get("kind") == kind
        )
        validate(document)

        document["spec"]["misspelt"] = 1

        with pytest.raises(jsonschema.ValidationError):
            validate(document)
