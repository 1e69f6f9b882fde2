"""Where a worker runs, as a monitored resource of Cloud Monitoring.

Types and their labels: cloud.google.com/monitoring/api/resources. Kubernetes tells a
pod its name and namespace by the downward API (``POD_NAME``, ``POD_NAMESPACE``), the
metadata server tells the cluster and the machine; neither knows both.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.errors import SinkError

if TYPE_CHECKING:  # it needs requests, and this module's names are settings' too
    from sidecar.metadata import MetadataServer

RESOURCE_LABELS: Mapping[str, tuple[str, ...]] = {
    "gce_instance": ("instance_id", "zone"),
    "k8s_pod": ("location", "cluster_name", "namespace_name", "pod_name"),
    "k8s_container": (
        "location",
        "cluster_name",
        "namespace_name",
        "pod_name",
        "container_name",
    ),
    "generic_task": ("location", "namespace", "job", "task_id"),
    "generic_node": ("location", "namespace", "node_id"),
}
"""Resource type -> its labels; all are needed."""

AUTO = "auto"
NOWHERE, NO_NAMESPACE, JOB = "global", "default", "capacity-sidecar"

PATIENCE = 60.0
"""Seconds in which a new pod's metadata server may begin to answer."""

_PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Resource:
    """A monitored resource: its type and labels."""

    type: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        pairs = ", ".join(f"{name}={value}" for name, value in self.labels.items())
        return f"{self.type} ({pairs})"


class Surroundings:
    """Finds out where this process runs, when it is first needed.

    Args:
        clock: monotonic time.
        product_name, namespace: files in which the kernel names the machine, and
            Kubernetes the namespace.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        hostname: str,
        metadata: MetadataServer,
        clock: Callable[[], float] = time.monotonic,
        product_name: Path = _PRODUCT_NAME,
        namespace: Path = _NAMESPACE,
    ) -> None:
        self._environ = environ
        self._hostname = hostname
        self._clock = clock
        self._product_name = product_name
        self._namespace = namespace
        self._metadata = metadata
        self._asked_at: float | None = None
        self._ask_again_at = inf
        self._machine: dict[str, str | None] | None = None

    @property
    def project(self) -> str | None:
        """The project of the machine or cluster; None: it is in none.

        Raises:
            SinkError: the metadata server is there, but does not answer yet.
        """
        return self._known()["project"]

    def resource(self, kind: str, overrides: Mapping[str, str]) -> Resource:
        """The resource of that type, or of the best type where it is ``auto``.

        Raises:
            SinkError: a label is not known, or the metadata server does not answer yet.
        """
        if kind == AUTO:
            kind = self._kind(self._known())
        found = {
            name: overrides.get(name) or self._label(name)
            for name in RESOURCE_LABELS[kind]
        }
        if surplus := sorted(set(overrides) - set(found)):
            raise _wrong(f"{kind} has no label {', '.join(surplus)}", [*found])
        if missing := [name for name, value in found.items() if not value]:
            raise _wrong(f"{kind} needs {', '.join(missing)}", missing)
        return Resource(kind, {name: value or "" for name, value in found.items()})

    def _kind(self, known: Mapping[str, str | None]) -> str:
        if self._in_pod:
            return "k8s_pod" if known["cluster_name"] else "generic_task"
        # Cloud Run, say, has a metadata server as well, with another kind of id.
        is_machine = (known["instance_id"] or "").isdigit() and known["zone"]
        return "gce_instance" if is_machine else "generic_task"

    def _label(self, name: str) -> str | None:
        if name == "namespace_name":
            return self._pod_namespace
        if name == "namespace":
            return self._pod_namespace or NO_NAMESPACE
        if name == "pod_name":
            return self._pod_name
        if name == "container_name":
            return self._environ.get("CONTAINER_NAME")
        if name in {"task_id", "node_id"} and self._pod_name:
            return self._pod_name
        known = self._known()
        if name == "location":
            return known["cluster_location"] or known["zone"] or NOWHERE
        if name == "job":
            return known["group"] or JOB
        if name in {"task_id", "node_id"}:
            return known["instance_name"] or self._hostname
        return known[name]

    @property
    def _in_pod(self) -> bool:
        return "KUBERNETES_SERVICE_HOST" in self._environ

    @property
    def _pod_name(self) -> str | None:
        """A pod's host name is its name, unless it shares its node's network."""
        told = self._environ.get("POD_NAME")
        return told or (self._hostname if self._in_pod else None)

    @property
    def _pod_namespace(self) -> str | None:
        return self._environ.get("POD_NAMESPACE") or _text(self._namespace)

    def _known(self) -> Mapping[str, str | None]:
        if self._machine is None or self._clock() >= self._ask_again_at:
            try:
                self._machine, self._ask_again_at = self._ask(), inf
            except SinkError:
                if self._must_be_there():
                    raise
                # In a pod it may still come; elsewhere there is none.
                again = self._clock() + PATIENCE if self._in_pod else inf
                self._machine, self._ask_again_at = dict.fromkeys(_PATHS), again
        return self._machine

    def _ask(self) -> dict[str, str | None]:
        found = {name: self._metadata.read(path) for name, path in _PATHS.items()}
        for name in ("zone", "group"):
            found[name] = (found[name] or "").rpartition("/")[2] or None
        # Zones that are none have a region that is one: us-central1-1 on Cloud Run.
        zone = _ZONE.match(found["zone"] or "")
        found["zone"] = zone and zone[0]
        hostname = found.pop("hostname")
        # Clusters with Workload Identity may not tell the instance's name.
        found["instance_name"] = found["instance_name"] or (
            hostname and hostname.partition(".")[0]
        )
        return found

    def _must_be_there(self) -> bool:
        """Whether a server that does not answer is late rather than absent."""
        if self._asked_at is None:
            self._asked_at = self._clock()
        is_google = (_text(self._product_name) or "").startswith("Google")
        if is_google or self._metadata.is_set:
            return True
        return self._in_pod and self._clock() - self._asked_at < PATIENCE


_ZONE = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z0-9]*[a-z]$)?")
_PATHS = {
    "project": "project/project-id",
    "instance_id": "instance/id",
    "zone": "instance/zone",
    "instance_name": "instance/name",
    "hostname": "instance/hostname",
    "cluster_name": "instance/attributes/cluster-name",
    "cluster_location": "instance/attributes/cluster-location",
    "group": "instance/attributes/created-by",
}


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _wrong(what: str, names: list[str]) -> SinkError:
    example = ",".join(f"{name}=…" for name in names)
    msg = f"{what}; set SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS={example}"
    return SinkError(msg, reason="resource")
