"""The model of the HPA against published examples and ones worked out by hand."""

from __future__ import annotations

import pytest

from tests.loop.hpa import (
    Hpa,
    Pod,
    Rule,
    Spec,
    desired,
    desired_of_total,
    pod_value,
)

NOW = 10_000.0


def wanted(
    target: int, *values: int | None, pending: int = 0, tolerance: float = 0.1
) -> int | None:
    """By the metric alone, from as many pods as there are values, and pending ones."""
    pods = [Pod(f"pod{i}") for i in range(len(values))]
    known = {pod.name: each for pod, each in zip(pods, values, strict=True)}
    pods += [Pod(f"new{i}", pending=True) for i in range(pending)]
    spec = Spec(target, 1, 100, tolerance=tolerance)
    return desired(spec, pods, known, len(pods))


class TestAdapter:
    def test_takes_the_newest_point(self) -> None:
        assert pod_value([[(NOW - 60, 0.2), (NOW - 5, 0.6)]], NOW) == 600

    def test_looks_back_five_minutes(self) -> None:
        assert pod_value([[(NOW - 299, 0.6)]], NOW) == 600
        assert pod_value([[(NOW - 300, 0.6)]], NOW) is None

    def test_adds_the_series_of_a_pod_up(self) -> None:
        series = [[(NOW - 5, 0.25)], [(NOW - 5, 0.5)], [(NOW - 400, 9.0)]]
        assert pod_value(series, NOW) == 750

    def test_cuts_to_thousandths(self) -> None:
        assert pod_value([[(NOW, 0.7999)]], NOW) == 799
        assert pod_value([[(NOW, 0.0009)], [(NOW, 0.0009)]], NOW) == 0


class TestFormula:
    def test_the_documentation_s_example(self) -> None:
        """200m against 100m doubles, 50m halves."""
        assert wanted(100, 200, 200) == 4
        assert wanted(100, 50, 50, 50, 50) == 2

    def test_rounds_up(self) -> None:
        assert wanted(700, 780, 780, 780) == 4  # 3.34

    def test_tolerates_a_tenth(self) -> None:
        assert wanted(700, 769, 769) == 2  # 1.0986
        assert wanted(700, 771, 771) == 3
        assert wanted(1000, 900, 900, 900) == 3
        assert wanted(1000, 600, 600, 600) == 2  # 1.8

    def test_without_any_metric_nothing_is_done(self) -> None:
        assert wanted(700, None, None) is None
        assert Hpa(Spec(700, 1, 9)).sync([Pod("a")], {}, 1, NOW)[0] == 1


class TestMissing:
    """The levels of kubernetes' replica_calculator_test.go, in thousandths."""

    def test_missing_metrics_no_change_eq(self) -> None:
        """TestPlainMetricReplicaCalcMissingMetricsNoChangeEq."""
        assert wanted(20_000, 20_000, 19_000, 21_000, None, None) == 5

    def test_missing_metrics_no_change_gt(self) -> None:
        """TestReplicaCalcMissingMetricsNoChangeGt: 1.9 would be 0.95 with the other."""
        assert wanted(1000, 1900, None) == 2

    def test_missing_metrics(self) -> None:
        """TestReplicaCalcMissingMetrics: two missing count as full, 0.62 of four."""
        assert wanted(1000, 400, 95, None, None) == 3

    def test_dampens_a_scale_up(self) -> None:
        """3.0 of one; with the missing one 1.5 of two."""
        assert wanted(1000, 3000, None) == 3

    def test_a_pending_pod_counts_nothing_up_and_not_at_all_down(self) -> None:
        assert wanted(1000, 3000, pending=1) == 3
        assert wanted(1000, 300, 300, pending=1) == 1


class TestExternal:
    """The levels of kubernetes' replica_calculator_test.go, the pool's total."""

    @staticmethod
    def wanted(target: int, total: int | None, current: int) -> int | None:
        return desired_of_total(Spec(target, 1, 100), total, current)

    def test_scale_up_per_pod_cm_external(self) -> None:
        """TestReplicaCalcScaleUpPerPodCMExternal."""
        assert self.wanted(2150, 8600, 3) == 4

    def test_scale_down_per_pod_cm_external(self) -> None:
        """TestReplicaCalcScaleDownPerPodCMExternal."""
        assert self.wanted(2867, 8600, 5) == 3

    def test_pods_that_are_loading_are_not_counted_twice(self) -> None:
        assert self.wanted(700, 2800, 4) == self.wanted(700, 2800, 8) == 4

    def test_without_an_answer_nothing_is_done(self) -> None:
        assert self.wanted(700, None, 3) is None


class Deployment:
    """Pods that are as many as the controller asks for, all of them alike."""

    def __init__(self, spec: Spec, count: int) -> None:
        self.hpa, self.count = Hpa(spec), count

    def at(self, second: float, value: int) -> int:
        pods = [Pod(f"pod{i}") for i in range(self.count)]
        values: dict[str, int | None] = {pod.name: value for pod in pods}
        self.count, self.hpa = self.hpa.sync(pods, values, self.count, NOW + second)
        return self.count


class TestBehavior:
    def test_scales_down_after_five_minutes(self) -> None:
        pods = Deployment(Spec(700, 1, 10), 4)
        assert pods.at(0, 700) == 4
        assert pods.at(15, 100) == 4
        assert pods.at(299, 100) == 4
        assert pods.at(300, 100) == 1

    def test_to_the_highest_of_the_five_minutes(self) -> None:
        pods = Deployment(Spec(700, 1, 10), 4)
        pods.at(0, 700)
        pods.at(150, 500)  # 3 of 4
        assert pods.at(300, 100) == 3

    def test_a_pool_that_is_watched_anew_keeps_its_size_as_long(self) -> None:
        pods = Deployment(Spec(700, 1, 10), 4)
        assert pods.at(0, 100) == 4
        assert pods.at(300, 100) == 1

    def test_scales_up_at_once_by_four_or_to_the_double(self) -> None:
        pods = Deployment(Spec(700, 1, 100), 1)
        assert pods.at(0, 70_000) == 5
        assert pods.at(15, 70_000) == 10
        assert pods.at(30, 70_000) == 20

    def test_a_period_s_additions_count_together(self) -> None:
        pods = Deployment(Spec(700, 1, 100, up=(Rule("Pods", 4, 60),)), 1)
        assert [pods.at(t, 70_000) for t in (0, 15, 45, 60)] == [5, 5, 5, 9]

    def test_the_documentation_s_scale_down_policies(self) -> None:
        """4 pods or 10 % a minute: 80 to 72, then 7.2, rounded up to 8."""
        down = (Rule("Pods", 4, 60), Rule("Percent", 10, 60))
        spec = Spec(1000, 1, 100, down_window=0, down=down)
        pods = Deployment(spec, 80)
        assert pods.at(0, 100) == 72
        assert pods.at(60, 100) == 64
        small = Deployment(spec, 30)
        assert small.at(0, 100) == 26

    @pytest.mark.parametrize(("value", "count"), [(70_000, 6), (0, 2)])
    def test_stays_within_the_spec(self, value: int, count: int) -> None:
        pods = Deployment(Spec(700, 2, 6, down_window=0), 3)
        pods.at(0, value)
        assert pods.at(15, value) == count
