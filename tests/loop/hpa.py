"""A model of the HorizontalPodAutoscaler (autoscaling/v2) for one metric.

Rules, with their sources:

- kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, "Algorithm details"
  and "Default behavior": the formula, the tolerance, missing metrics, pods not yet
  ready, the stabilization windows and the default policies.
- kubernetes pkg/controller/podautoscaler, replica_calculator.go
  (calcPlainMetricReplicas, groupPods) and horizontal.go
  (stabilizeRecommendationWithBehaviors, calculateScaleUpLimitWithScalingRules): the
  order of these steps, the rounding. For a metric other than CPU a pod counts as not
  yet ready only while it is Pending, and the formula counts the pods with a value.
- k8s-stackdriver custom-metrics-stackdriver-adapter, response_translator.go
  (getMetricValuesFromResponse) and query_builder.go: newest point of the last 5
  minutes, the series of one pod added up, `int64(value * 1000)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tests.loop.series import Series

SYNC_PERIOD = 15.0
"""Seconds, --horizontal-pod-autoscaler-sync-period."""

NEWEST_WITHIN = 300.0
"""Seconds that the adapter looks back for a point."""


@dataclass(frozen=True)
class Rule:
    """One scaling policy: a change allowed within a period. Percent or Pods."""

    kind: str
    value: float
    period: float


@dataclass(frozen=True)
class Spec:
    """What the HPA object says; the defaults are the documented ones.

    Attributes:
        target: averageValue in thousandths, `700m` is 700.
        tolerance: of the ratio of value and target.
        down_window, up_window: stabilizationWindowSeconds.
    """

    target: int
    least: int
    most: int
    tolerance: float = 0.1
    down_window: float = 300.0
    up_window: float = 0.0
    up: tuple[Rule, ...] = (Rule("Percent", 100, 15), Rule("Pods", 4, 15))
    down: tuple[Rule, ...] = (Rule("Percent", 100, 15),)


@dataclass(frozen=True)
class Pod:
    """A pod that is neither failed nor being deleted."""

    name: str
    pending: bool = False


def pod_value(series: Iterable[Series], now: float) -> int | None:
    """What the adapter says of one pod, in thousandths; None: no metric.

    Args:
        series: every series of that pod and metric.
        now: Unix seconds.
    """
    newest = [points[-1] for points in series if points]
    fresh = [value for at, value in newest if now - NEWEST_WITHIN < at <= now]
    return sum(int(value * 1000) for value in fresh) if fresh else None


def desired(
    spec: Spec, pods: Sequence[Pod], values: Mapping[str, int | None], current: int
) -> int | None:
    """Replicas by the metric alone; None: no metric of any pod, nothing is done.

    Args:
        values: thousandths by pod; None or absent: missing.
        current: replicas asked for now.
    """
    pending = [pod.name for pod in pods if pod.pending]
    running = [pod.name for pod in pods if not pod.pending]
    known = {name: v for name in running if (v := values.get(name)) is not None}
    missing = [name for name in running if name not in known]
    if not known:
        return None
    ratio = _ratio(known, spec.target)
    up_with_pending = bool(pending) and ratio > 1
    if not up_with_pending and not missing:
        if abs(1 - ratio) <= spec.tolerance:
            return current
        return ceil(ratio * len(known))
    filled = dict(known)
    if ratio != 1:
        filled |= dict.fromkeys(missing, spec.target if ratio < 1 else 0)
    if up_with_pending:
        filled |= dict.fromkeys(pending, 0)
    again = _ratio(filled, spec.target)
    turned = (ratio < 1 < again) or (again < 1 < ratio)
    if abs(1 - again) <= spec.tolerance or turned:
        return current
    count = ceil(again * len(filled))
    wrong_way = (again < 1 and count > current) or (again > 1 and count < current)
    return current if wrong_way else count


def desired_of_total(spec: Spec, total: int | None, current: int) -> int | None:
    """Replicas by an External metric with an AverageValue, as KEDA makes it.

    replica_calculator.go, GetExternalPerPodMetricReplicas: the pods are not looked at.

    Args:
        total: the metric in thousandths; None: KEDA gave an error.
    """
    if total is None:
        return None
    if abs(1 - total / (spec.target * current)) <= spec.tolerance:
        return current
    return ceil(total / spec.target)


def _ratio(values: Mapping[str, int], target: int) -> float:
    """Mean over target; the mean is an integer number of thousandths."""
    return (sum(values.values()) // len(values)) / target


Timed = tuple[float, int]
"""Unix seconds, replicas."""


@dataclass(frozen=True)
class Hpa:
    """The controller between two syncs.

    Attributes:
        recommendations: by the metric, as old as the longer window.
        added, removed: replicas by which it scaled, and when.
    """

    spec: Spec
    recommendations: tuple[Timed, ...] = ()
    added: tuple[Timed, ...] = ()
    removed: tuple[Timed, ...] = ()

    def sync(
        self,
        pods: Sequence[Pod],
        values: Mapping[str, int | None],
        current: int,
        now: float,
    ) -> tuple[int, Hpa]:
        """Replicas to ask for, and the controller after it."""
        return self.follow(desired(self.spec, pods, values, current), current, now)

    def follow(
        self, by_metric: int | None, current: int, now: float
    ) -> tuple[int, Hpa]:
        """Replicas to ask for, with those by the metric; None: it has no value."""
        if by_metric is None:
            return current, self
        # horizontal.go, recordInitialRecommendation.
        past = self.recommendations or ((now, current),)
        longest = max(self.spec.down_window, self.spec.up_window)
        kept = tuple(each for each in past if now - each[0] <= longest)
        new = replace(self, recommendations=(*kept, (now, by_metric)))
        count = new._stable(by_metric, current, now)
        count = self._limited(count, current, now)
        if count > current:
            new = replace(new, added=(*self.added[-20:], (now, count - current)))
        elif count < current:
            new = replace(new, removed=(*self.removed[-20:], (now, current - count)))
        return count, new

    def _stable(self, count: int, current: int, now: float) -> int:
        """Down: the highest of the window; up: the lowest of its own."""
        if count >= current:
            window, choose = self.spec.up_window, min
        else:
            window, choose = self.spec.down_window, max
        recent = [n for at, n in self.recommendations if now - at < window]
        return choose([count, *recent])

    def _limited(self, count: int, current: int, now: float) -> int:
        """Within the policies, of which the one that allows most is taken."""
        spec = self.spec
        if count > current:
            ceilings = [_up(rule, current, self.added, now) for rule in spec.up]
            return min(count, spec.most, max(current, *ceilings))
        floors = [_down(rule, current, self.removed, now) for rule in spec.down]
        return max(count, spec.least, min(floors)) if count < current else count


def _up(rule: Rule, current: int, events: Sequence[Timed], now: float) -> int:
    start = current - _changed(events, now, rule.period)
    if rule.kind == "Pods":
        return start + int(rule.value)
    return ceil(start * (1 + rule.value / 100))


def _down(rule: Rule, current: int, events: Sequence[Timed], now: float) -> int:
    start = current + _changed(events, now, rule.period)
    if rule.kind == "Pods":
        return start - int(rule.value)
    return int(start * (1 - rule.value / 100))


def _changed(events: Sequence[Timed], now: float, period: float) -> int:
    return sum(n for at, n in events if now - at < period)
