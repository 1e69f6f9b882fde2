"""Monitored resource types, their labels, and what the labels must look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from google.api.label_pb2 import LabelDescriptor
from google.api.monitored_resource_pb2 import MonitoredResourceDescriptor
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.refusals import Refused, wrong_field

LABELS: Mapping[str, tuple[str, ...]] = {
    "gce_instance": ("instance_id", "zone"),
    "k8s_cluster": ("location", "cluster_name"),
    "k8s_node": ("location", "cluster_name", "node_name"),
    "k8s_pod": ("location", "cluster_name", "namespace_name", "pod_name"),
    "k8s_container": (
        "location",
        "cluster_name",
        "namespace_name",
        "pod_name",
        "container_name",
    ),
    "generic_node": ("location", "namespace", "node_id"),
    "generic_task": ("location", "namespace", "job", "task_id"),
    "global": (),
}
"""Type -> its labels besides ``project_id``: opentelemetry-operations-go's table."""

_AREA = "africa|asia|australia|europe|me|northamerica|southamerica|us"
_REGION = re.compile(rf"({_AREA})-(north|south|central)?(east|west)?\d+")
_ZONE = re.compile(rf"{_REGION.pattern}-(ai\d+)?[a-z]")
_AMAZON = re.compile(r"aws:[a-z]{2}-[a-z-]+-\d[a-z]?")


def check(index: int, series: TimeSeries, projects: tuple[str, ...]) -> None:
    """Check the resource of a series.

    Raises:
        Refused: an unknown type, a label missing or unknown, or an impossible value.
    """
    kind, labels = series.resource.type, dict(series.resource.labels)
    if kind not in LABELS:
        # gax-dotnet #233
        text = "Unrecognized resource name."
        raise wrong_field(index, "resource.type", kind, text)
    project = labels.pop("project_id", projects[0])
    if project not in projects:
        # vector #18035
        text = "if present, must be the project number or ID in the request name."
        raise wrong_field(index, "resource.labels.project_id", project, text)
    missing = sorted(set(LABELS[kind]) - labels.keys())
    if missing:
        # opentelemetry-operations-java #366
        text = "The set of resource labels is incomplete. Missing labels: "
        raise Refused(f"{text}({' '.join(missing)}).", at_write=True)
    for name in sorted(labels.keys() - set(LABELS[kind])):
        # opencensus-go-exporter-stackdriver #92
        raise Refused(f"Unrecognized resource label: {name}", at_write=True)
    for name, value in labels.items():
        _check_label(index, kind, name, value)


def _check_label(index: int, kind: str, name: str, value: str) -> None:
    known = _PLACES.get(name)
    if known is not None and not known(kind, value):
        # gax-dotnet #233, anthos-samples #579
        raise Refused("Unrecognized region or location.", at_write=True)
    if name == "instance_id" and not (value.isascii() and value.isdigit()):
        # The reference calls it numeric; nomulus #2086 suggests that the server takes
        # other text as well, but no autoscaler finds an instance by it.
        text = "Must be the number of the instance."
        raise wrong_field(index, "resource.labels.instance_id", value, text)


def _is_zone(_: str, value: str) -> bool:
    return _ZONE.fullmatch(value) is not None


def _is_location(kind: str, value: str) -> bool:
    if kind.startswith("generic_") and (value == "global" or _AMAZON.fullmatch(value)):
        return True
    return bool(_REGION.fullmatch(value) or _ZONE.fullmatch(value))


_PLACES: Mapping[str, Callable[[str, str], bool]] = {
    "zone": _is_zone,
    "location": _is_location,
}


def descriptor(project: str, kind: str) -> MonitoredResourceDescriptor:
    """The description of a type that is in ``LABELS``."""
    return MonitoredResourceDescriptor(
        name=f"projects/{project}/monitoredResourceDescriptors/{kind}",
        type=kind,
        display_name=kind.replace("_", " ").title(),
        labels=[LabelDescriptor(key=name) for name in ("project_id", *LABELS[kind])],
    )
