"""What the metadata server of a machine and of a cluster's pods has.

Values by path under ``/computeMetadata/v1/``: cloud.google.com/compute/docs/metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Values = dict[str, str]

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
MONITORING_WRITE = "https://www.googleapis.com/auth/monitoring.write"
ACCOUNTS = "instance/service-accounts"


def gce(
    *,
    project: str = "a-project",
    number: str = "123456789012",
    zone: str = "us-central1-a",
    instance_id: str = "4520031799277581759",
    name: str = "gpu-worker-1",
    group: str | None = None,
    attributes: Mapping[str, str] | None = None,
    email: str = "worker@a-project.iam.gserviceaccount.com",
    scopes: Sequence[str] = (CLOUD_PLATFORM,),
) -> Values:
    """A virtual machine.

    Args:
        zone: the short form; the server says ``projects/NUMBER/zones/ZONE``.
        group: the managed instance group that made the machine, in the same zone.
        attributes: custom metadata, by name.
    """
    values = {
        "project/project-id": project,
        "project/numeric-project-id": number,
        "instance/id": instance_id,
        "instance/zone": f"projects/{number}/zones/{zone}",
        "instance/name": name,
        "instance/hostname": f"{name}.{zone}.c.{project}.internal",
        "instance/machine-type": f"projects/{number}/machineTypes/g2-standard-8",
        "universe/universe-domain": "googleapis.com",
        **_account(email, scopes),
    }
    if group is not None:
        maker = f"projects/{number}/zones/{zone}/instanceGroupManagers/{group}"
        values["instance/attributes/created-by"] = maker
    for key, value in (attributes or {}).items():
        values[f"instance/attributes/{key}"] = value
    return values


def gke(
    *,
    project: str = "a-project",
    number: str = "123456789012",
    cluster: str = "a-cluster",
    location: str = "us-central1",
    zone: str = "us-central1-a",
    instance_id: str = "7813299496046632564",
    name: str | None = None,
    email: str = "a-project.svc.id.goog",
    scopes: Sequence[str] = (CLOUD_PLATFORM,),
) -> Values:
    """A pod under Workload Identity: the node's place, no names of pod or container.

    Args:
        location: of the cluster, a region or a zone.
        zone: of the node.
        name: the node's; None: not served, as under Workload Identity before 2026.
        email: ``PROJECT.svc.id.goog`` without a Google service account.
    """
    node = name or f"gke-{cluster}-gpu-pool-8be1a7a8-x775"
    values = {
        "project/project-id": project,
        "project/numeric-project-id": number,
        "instance/id": instance_id,
        "instance/zone": f"projects/{number}/zones/{zone}",
        "instance/hostname": f"{node}.{zone}.c.{project}.internal",
        "instance/attributes/cluster-name": cluster,
        "instance/attributes/cluster-location": location,
        "instance/attributes/cluster-uid": "1f0e0f9d3f2c4f6c8f0f",
        "universe/universe-domain": "googleapis.com",
        **_account(email, scopes),
    }
    if name is not None:
        values["instance/name"] = name
    return values


def _account(email: str, scopes: Sequence[str]) -> Values:
    """The only service account, under its two names; one scope a line."""
    account = {"aliases": "default", "email": email, "scopes": "\n".join(scopes)}
    return {
        f"{ACCOUNTS}/{name}/{key}": value
        for name in ("default", email)
        for key, value in account.items()
    }
