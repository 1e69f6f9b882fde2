"""Manifests as the cluster gets them: what `kubectl apply -k` would send."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from tests.packaging.documents import PACKAGING, shell_blocks

Document = dict[str, Any]

IMAGE = "registry.example.com:5000/a-project/capacity-sidecar:1.2.3"
SCALERS = {"HorizontalPodAutoscaler", "ScaledObject"}
OF_A_POD = {
    "metadata.name": "vllm-5d9c-x2x7q",
    "metadata.namespace": "llm",
    "spec.nodeName": "gpu-node-1",
}
"""What the downward API says of any pod, by the paths of its fields."""

_REFERENCE = re.compile(r"\$\((\w+)\)")


def kubectl() -> str:
    """The path of kubectl; the test is skipped where there is none."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed")
    return found


def pasted(page: Path, checkout: Path, **environ: str) -> list[Document]:
    """What the page's block that writes my-worker/kustomization.yaml applies.

    Args:
        checkout: an empty directory.
        environ: the names that the page exports by then.
    """
    if not (checkout / "packaging").exists():
        (checkout / "packaging").symlink_to(PACKAGING)
    (block,) = (each for each in shell_blocks(page) if "<<END" in each)
    named = re.sub(r"^export .*\n", "", block, flags=re.MULTILINE)
    subprocess.run(
        ["bash", "-euc", f"kubectl() {{ :; }}\n{named}"],
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "IMAGE": IMAGE, **environ},
        check=True,
    )
    return built(checkout / "my-worker")


def exported(page: Path) -> dict[str, str]:
    """What a page exports in its first block, with the values that it shows."""
    return dict(re.findall(r"\b(\w+)=([\w.:/-]+)", shell_blocks(page)[0]))


def laid_out(checkout: Path, kustomization: Document, *resources: Document) -> Path:
    """A folder of a user's own beside packaging/, to be built.

    Args:
        kustomization: `components` and so on, by paths from that folder.
        resources: documents in files of its own.
    """
    if not (checkout / "packaging").exists():
        (checkout / "packaging").symlink_to(PACKAGING)
    folder = checkout / "my-worker"
    folder.mkdir(exist_ok=True)
    (folder / "own.yaml").write_text(yaml.safe_dump_all(resources))
    whole = {"resources": ["own.yaml"], **kustomization}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(whole))
    return folder


def built(folder: Path) -> list[Document]:
    """The documents of `kubectl kustomize`."""
    output = subprocess.run(
        [kubectl(), "kustomize", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return list(yaml.safe_load_all(output))


def only(kind: str, documents: list[Document]) -> Document:
    """The one document of this kind."""
    (document,) = (each for each in documents if each["kind"] == kind)
    return document


def sidecar(workload: Document) -> Document:
    """The sidecar's container in a Deployment or the like."""
    containers = workload["spec"]["template"]["spec"]["initContainers"]
    (found,) = (each for each in containers if each["name"] == "capacity-sidecar")
    return dict(found)


def of_a_pod(workload: Document) -> dict[str, str]:
    """What the downward API says of a pod of this workload."""
    annotations = workload["spec"]["template"]["metadata"].get("annotations", {})
    named = {f"metadata.annotations['{k}']": v for k, v in annotations.items()}
    return {**OF_A_POD, **named}


def environ(
    container: Document, fields: Mapping[str, str] = MappingProxyType(OF_A_POD)
) -> dict[str, str]:
    """A container's environment, as Kubernetes makes it.

    `$(NAME)` stands for a variable that was declared before; others are left alone.

    Args:
        fields: values of the downward API, by their paths. An annotation that is not
            there is empty, as in a pod.
    """
    values: dict[str, str] = {}
    for each in container["env"]:
        if "valueFrom" in each:
            path = each["valueFrom"]["fieldRef"]["fieldPath"]
            annotated = path.startswith("metadata.annotations[")
            text = fields.get(path, "") if annotated else fields[path]
        else:
            text = each["value"]
        values[each["name"]] = _REFERENCE.sub(
            lambda match: values.get(match[1], match[0]), text
        )
    return values


def objects(node: Any, name: str = "") -> Iterator[tuple[str, Document]]:
    """Every object in a document, with the field that it stands in."""
    if isinstance(node, dict):
        yield name, node
        for key, value in node.items():
            yield from objects(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value, name)
