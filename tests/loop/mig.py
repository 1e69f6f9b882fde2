"""A model of the Compute Engine autoscaler of a managed instance group (MIG).

Documented (docs.cloud.google.com/compute/docs/autoscaler, reference of the API):

- "Scale based on Monitoring metrics", utilization target: where the metric comes from
  each VM, its average over all VMs is compared with the target. Single instance
  assignment: the metric is divided by it; 100 over 5 makes 20 VMs. With per-instance
  metrics "the MIG cannot scale below a size of 1 VM because the autoscaler requires
  metrics about at least one running VM"; per-group metrics can go to zero.
- `AutoscalingPolicyCustomMetricUtilization`: a GAUGE is averaged over the last couple
  of minutes; several series that match are summed; `gce_instance` means "a separate
  TimeSeries for each instance in a group", any other one of the whole group.
- "Understanding autoscaler decisions": "the autoscaler might determine that adding 1.5
  virtual machine (VM) instances would decrease the utilization to close to 0.7", and
  adds two; where 1.5 are too many "it will remove just one". "By default, the
  autoscaler sets the recommended size to handle peak load observed over the
  stabilization period", 10 minutes, within the least and the most VMs; scale-in
  controls keep it near the peak size of a trailing window.
- `coolDownPeriodSec`, default 60: "when scaling out, the autoscaler ignores data from
  VMs that are still initializing".

Assumptions, because no page that was found says it:

- The size needed is the loads of the VMs in sum over the target. That is the average
  times the size over the target where every VM has data; with VMs that boot and are
  ignored the latter would ask for more at every turn.
- What a VM without data counts for: see `Missing`; the tests take every variant. Of no
  data at all the API says only MISSING_CUSTOM_METRIC_DATA_POINTS, a warning: the size
  stays.
- It "recalculates the recommended size constantly": every 15 s. A couple of minutes
  are two.
- Before it was watched the group had the size that it needed.
- To scale in, VMs that still initialize count as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil

from tests.loop.series import Series

PERIOD = 15.0
"""Seconds between two evaluations (assumption)."""

WINDOW = 120.0
"""Seconds over which a gauge is averaged: the last couple of minutes."""

_ROUNDING = 1e-9
"""2.1 / 0.7 is 3, not a little more."""


class Missing(Enum):
    """What a running VM counts for that has no data in the window (assumptions)."""

    NOTHING = "nothing"
    AVERAGE = "the average of the others"
    TARGET = "the target"


@dataclass(frozen=True)
class ScaleInControl:
    """At most so many VMs below the peak size of the last so many seconds."""

    most: int
    window: float


@dataclass(frozen=True)
class Policy:
    """The autoscaling policy; the defaults are the documented ones.

    Attributes:
        target: utilization target of the metric (per instance), or the single instance
            assignment (per group).
        initialization, stabilization: seconds.
    """

    target: float
    least: int
    most: int
    initialization: float = 60.0
    stabilization: float = 600.0
    scale_in: ScaleInControl | None = None
    missing: Missing = Missing.TARGET


@dataclass(frozen=True)
class Vm:
    """A member of the group, and when it was created (Unix seconds)."""

    name: str
    created_at: float


def load(series: Iterable[Series], now: float) -> float | None:
    """The metric of one VM, or of the group: the average of each series over the
    window, the series added up; None: no point in it."""
    means = []
    for points in series:
        recent = [value for at, value in points if now - WINDOW < at <= now]
        if recent:
            means.append(sum(recent) / len(recent))
    return sum(means) if means else None


def needed_by_instances(
    policy: Policy, vms: Sequence[Vm], loads: Mapping[str, float | None], now: float
) -> int | None:
    """Size for the load of this moment, per-instance mode; None: there is no data.

    To scale out only the VMs that have initialized count, to scale in all do.
    """
    warm = [vm for vm in vms if now - vm.created_at >= policy.initialization]
    if all(loads.get(vm.name) is None for vm in vms):
        return None
    out = _size(policy, [loads.get(vm.name) for vm in warm])
    if out > len(vms):
        return out
    return min(_size(policy, [loads.get(vm.name) for vm in vms]), len(vms))


def _size(policy: Policy, loads: Sequence[float | None]) -> int:
    known = [value for value in loads if value is not None]
    if not known:
        return 0
    filler = {
        Missing.NOTHING: 0.0,
        Missing.AVERAGE: sum(known) / len(known),
        Missing.TARGET: policy.target,
    }[policy.missing]
    total = sum(known) + filler * (len(loads) - len(known))
    return max(1, ceil(total / policy.target - _ROUNDING))


def needed_by_group(assignment: float, total: float | None) -> int | None:
    """Size by single instance assignment, per-group mode; None: there is no data."""
    return None if total is None else ceil(total / assignment - _ROUNDING)


Timed = tuple[float, int]
"""Unix seconds, VMs."""


@dataclass(frozen=True)
class Autoscaler:
    """The autoscaler between two evaluations.

    Attributes:
        needs: sizes needed, as old as the stabilization period.
        sizes: sizes recommended, as old as the scale-in control's window.
    """

    policy: Policy
    needs: tuple[Timed, ...] = ()
    sizes: tuple[Timed, ...] = ()

    def decide(
        self, needed: int | None, current: int, now: float
    ) -> tuple[int, Autoscaler]:
        """The recommended size, which the group takes on, and the autoscaler after."""
        if needed is None:
            return current, self
        policy = self.policy
        before = self.needs or ((now, current),)
        needs = _recent((*before, (now, needed)), now, policy.stabilization)
        size = min(max(policy.least, max(n for _, n in needs)), policy.most)
        sizes: tuple[Timed, ...] = ()
        if control := policy.scale_in:
            past = _recent((*self.sizes, (now, current)), now, control.window)
            size = max(size, max(n for _, n in past) - control.most)
            sizes = (*past, (now, size))
        return size, replace(self, needs=needs, sizes=sizes)


def _recent(timed: tuple[Timed, ...], now: float, period: float) -> tuple[Timed, ...]:
    return tuple(each for each in timed if now - each[0] < period)
