"""The autoscalers, reading what the sidecars wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.gcp.series import Accepted
from tests.loop import hpa, mig
from tests.loop.hpa import Hpa, Pod
from tests.loop.mig import Autoscaler, Vm
from tests.loop.replica import Replica
from tests.loop.series import UTILIZATION, Series, by_resource
from tests.loop.virtual import EPOCH

PENDING = 60.0
"""Seconds in which a new pod has no node yet; then its model is loaded."""


FRESH = 120.0
"""Seconds for which the recording rules believe a reading."""


@dataclass
class MigScaler:
    """A managed instance group by its VMs: `gce_instance`, utilization target."""

    autoscaler: Autoscaler
    resource_type: str = "gce_instance"
    period: float = mig.PERIOD

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a worker as a resource."""
        return {"instance_id": _number(name), "zone": "us-central1-a"}

    def decide(
        self,
        members: Sequence[Replica],
        accepted: Accepted,
        now: float,
    ) -> int:
        """The size from now on; `now` is Unix time."""
        series = by_resource(
            accepted, UTILIZATION, self.resource_type, "instance_id", now - mig.WINDOW
        )
        vms = [Vm(_number(each.name), EPOCH + each.created_at) for each in members]
        loads = {vm.name: mig.load(series.get(vm.name, ()), now) for vm in vms}
        needed = mig.needed_by_instances(self.autoscaler.policy, vms, loads, now)
        size, self.autoscaler = self.autoscaler.decide(needed, len(vms), now)
        return size


@dataclass
class HpaScaler:
    """An HPA with a Pods metric through the adapter: `k8s_pod`, averageValue."""

    controller: Hpa
    resource_type: str = "k8s_pod"
    period: float = hpa.SYNC_PERIOD

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a worker as a resource."""
        return {
            "location": "us-central1",
            "cluster_name": "a-cluster",
            "namespace_name": "default",
            "pod_name": name,
        }

    def series(self, accepted: Accepted, since: float) -> dict[str, list[Series]]:
        """The utilization of each pod from then on."""
        return by_resource(accepted, UTILIZATION, self.resource_type, "pod_name", since)

    def decide(
        self,
        members: Sequence[Replica],
        accepted: Accepted,
        now: float,
    ) -> int:
        """The size from now on; `now` is Unix time."""
        series = self.series(accepted, now - hpa.NEWEST_WITHIN)
        pods = [Pod(each.name, _is_pending(each, now)) for each in members]
        values = {
            pod.name: hpa.pod_value(series.get(pod.name, ()), now) for pod in pods
        }
        size, self.controller = self.controller.sync(pods, values, len(pods), now)
        return size


@dataclass
class KedaScaler(HpaScaler):
    """An HPA of KEDA on the pool's load, as packaging/kubernetes/keda has it."""

    def decide(
        self,
        members: Sequence[Replica],
        accepted: Accepted,
        now: float,
    ) -> int:
        """The size from now on; `now` is Unix time."""
        series = self.series(accepted, now - FRESH)
        newest = [points[-1] for each in series.values() for points in each if points]
        fresh = [value for at, value in newest if now - at < FRESH]
        total = int(sum(fresh) * 1000) if fresh else None
        wanted = hpa.desired_of_total(self.controller.spec, total, len(members))
        size, self.controller = self.controller.follow(wanted, len(members), now)
        return max(self.controller.spec.least, size)


@dataclass
class Beside:
    """Several autoscalers on the same series, of which the first has its way.

    Attributes:
        sizes: what each would have, decision by decision.
    """

    scalers: Sequence[MigScaler]
    sizes: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def resource_type(self) -> str:
        """Of the first."""
        return self.scalers[0].resource_type

    @property
    def period(self) -> float:
        """Of the first."""
        return self.scalers[0].period

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a worker as a resource."""
        return self.scalers[0].labels(name)

    def decide(self, members: Sequence[Replica], accepted: Accepted, now: float) -> int:
        """The size from now on; `now` is Unix time."""
        sizes = tuple(each.decide(members, accepted, now) for each in self.scalers)
        self.sizes.append(sizes)
        return sizes[0]


def _number(name: str) -> str:
    return name.rpartition("-")[2]


def _is_pending(replica: Replica, now: float) -> bool:
    return now - EPOCH - replica.created_at < min(
        PENDING, replica.ready_at - replica.created_at
    )
