"""That what goes on top of packaging/kubernetes/sidecar fits, Dynamo above all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from sidecar.environment import load
from tests.packaging.documents import GKE, KUBERNETES, shell_blocks, yaml_texts
from tests.packaging.rendering import (
    IMAGE,
    SCALERS,
    Document,
    built,
    environ,
    exported,
    kubectl,
    laid_out,
    only,
    pasted,
    sidecar,
)
from tests.packaging.schemas import validate

README = KUBERNETES / "README.md"
SNIPPETS = yaml_texts(README)


@pytest.fixture
def dynamo_worker() -> Document:
    """A worker of Dynamo as somebody else may have written it."""
    pod = {
        "containers": [
            {"name": "worker", "image": "dynamo", "env": [{"name": "A", "value": "b"}]},
            {"name": "other", "image": "other"},
        ],
        "initContainers": [{"name": "fetch", "image": "fetch"}],
        "volumes": [{"name": "shm", "emptyDir": {}}],
    }
    labels = {"app": "worker"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "worker", "labels": {"capacity-sidecar": "enabled"}},
        "spec": {
            "serviceName": "worker",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


class TestOnTop:
    def test_a_dynamo_worker_and_its_sidecar_mean_the_same_port(
        self, dynamo_worker: Document, tmp_path: Path
    ) -> None:
        parts = ["sidecar", "dynamo"]
        components = [f"../packaging/kubernetes/{part}" for part in parts]
        folder = laid_out(tmp_path, {"components": components}, dynamo_worker)

        workload = only("StatefulSet", built(folder))

        validate(workload)
        pod = workload["spec"]["template"]["spec"]
        worker, other = pod["containers"]
        port = environ(sidecar(workload))["SIDECAR_METRICS_PORT"]
        assert environ(worker) == {"A": "b", "DYN_SYSTEM_PORT": port}
        assert int(port) <= 32767  # a signed 16 bit number to Dynamo
        assert other == {"name": "other", "image": "other"}
        # First, so that it is there when a container before the worker takes long.
        order = [each["name"] for each in pod["initContainers"]]
        assert order == ["capacity-sidecar", "fetch"]
        volumes = [each["name"] for each in pod["volumes"]]
        assert sorted(volumes) == ["capacity-sidecar", "shm"]

    def test_what_has_no_label_is_left_alone(
        self, dynamo_worker: Document, tmp_path: Path
    ) -> None:
        parts = ["sidecar", "dynamo", "pushgateway"]
        components = [f"../packaging/kubernetes/{part}" for part in parts]
        dynamo_worker["metadata"]["labels"] = {"capacity-sidecar": "no"}
        folder = laid_out(tmp_path, {"components": components}, dynamo_worker)

        assert built(folder) == [dynamo_worker]

    def test_pushed_series_say_which_pod_they_are_of(
        self, dynamo_worker: Document, tmp_path: Path
    ) -> None:
        """By variables that are declared before they are used."""
        parts = ["keda", "pushgateway"]
        components = [f"../packaging/kubernetes/{part}" for part in parts]
        folder = laid_out(tmp_path, {"components": components}, dynamo_worker)
        workload = only("StatefulSet", built(folder))
        values = environ(sidecar(workload))
        values["SIDECAR_STATE_FILE"] = str(tmp_path / "state.json")

        settings = load(values).settings

        assert settings.labels == {
            "namespace": "llm",
            "pod": "vllm-5d9c-x2x7q",
            "node": "gpu-node-1",
        }
        assert settings.pushgateway.job == "llm/capacity-sidecar"
        assert settings.pushgateway.url is not None


class TestPage:
    @pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
    def test_its_patches_go_at_the_end_of_what_it_has_written(
        self, snippet: str, tmp_path: Path
    ) -> None:
        before = pasted(README, tmp_path, **exported(README), WAY="keda")

        after = built(_appended(tmp_path, snippet))

        (old, new), *others = (
            pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]
        )
        assert others == []
        validate(new)
        # What the page patched by itself is as it was.
        if new["kind"] == "ScaledObject":
            assert new["spec"]["triggers"] == old["spec"]["triggers"]

    def test_all_of_them_fit_together(self, tmp_path: Path) -> None:
        before = pasted(README, tmp_path, **exported(README), WAY="keda")

        after = built(_appended(tmp_path, *SNIPPETS))

        changed = [new["kind"] for new in after if new not in before]
        assert sorted(changed) == ["Deployment", "ScaledObject"]


class TestGuaranteed:
    def test_the_page_s_resources_are_those_of_such_a_pod(self, tmp_path: Path) -> None:
        """Requests that are the limits, of the CPU as well."""
        pasted(README, tmp_path, **exported(README), WAY="keda")
        (row,) = re.findall(r"`resources: ({.*})`", README.read_text("utf-8"))
        (snippet,) = (each for each in SNIPPETS if "env:" in each)
        patched = re.sub(r"env:\n.*", f"resources: {row}", snippet)

        workload = only("Deployment", built(_appended(tmp_path, patched)))

        resources = sidecar(workload)["resources"]
        assert resources["requests"] == resources["limits"]
        assert set(resources["limits"]) == {"cpu", "memory"}
        validate(workload)


class TestOwnWorkload:
    @pytest.mark.parametrize(
        ("page", "way"),
        [
            pytest.param(README, "keda", id="keda"),
            pytest.param(README, "prometheus-adapter", id="prometheus-adapter"),
            pytest.param(GKE / "README.md", "managed-prometheus", id="gke"),
        ],
    )
    def test_a_statefulset_is_what_is_scaled(
        self, page: Path, way: str, dynamo_worker: Document, tmp_path: Path
    ) -> None:
        """By the page's first snippet, with the names that stand there."""
        dynamo_worker["metadata"]["name"] = "my-worker"
        named = {**exported(page), "WAY": way, "IMAGE": IMAGE}
        pasted(page, tmp_path, **named)
        folder = _appended(tmp_path, yaml_texts(page)[0])
        (folder / "own.yaml").write_text(yaml.safe_dump(dynamo_worker))
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        kustomization["resources"] = ["own.yaml"]
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))

        applied = built(folder)

        workload = only("StatefulSet", applied)
        assert sidecar(workload)["image"] == IMAGE
        (scaler,) = (each for each in applied if each["kind"] in SCALERS)
        assert scaler["spec"]["scaleTargetRef"] == {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
        }
        assert scaler["metadata"]["namespace"] == workload["metadata"]["namespace"]


def _appended(checkout: Path, *snippets: str) -> Path:
    """The folder of the page's block, with these at the end of its file."""
    folder = checkout / "my-worker"
    with (folder / "kustomization.yaml").open("a", encoding="utf-8") as file:
        file.writelines(snippets)
    return folder


class TestDynamoOperator:
    def test_the_page_makes_a_pod_spec_of_the_same_sidecar(
        self, tmp_path: Path, dynamo_worker: Document
    ) -> None:
        kubectl()
        if not shutil.which("jq"):
            pytest.skip("jq is not installed")
        (block,) = (each for each in shell_blocks(README) if "extraPodSpec" in each)
        (tmp_path / "packaging").symlink_to(KUBERNETES.parent)
        script = f"export IMAGE={IMAGE}\n{block}"
        subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True)

        part = json.loads((tmp_path / "worker.json").read_text())

        assert part["extraPodMetadata"] == {"labels": {"capacity-sidecar": "enabled"}}
        (container,) = part["extraPodSpec"]["initContainers"]
        values = environ(container)
        # What the operator sets on every worker (component_worker.go).
        assert values["SIDECAR_METRICS_PORT"] == "9090"
        assert container["image"] == IMAGE
        pod = dynamo_worker["spec"]["template"]["spec"]
        validate(
            {
                **dynamo_worker,
                "spec": {
                    **dynamo_worker["spec"],
                    "template": {
                        "metadata": dynamo_worker["spec"]["template"]["metadata"],
                        "spec": {**pod, **part["extraPodSpec"]},
                    },
                },
            }
        )
