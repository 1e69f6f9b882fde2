"""The model of the MIG autoscaler against examples worked out by hand."""

from __future__ import annotations

import pytest

from tests.loop.mig import (
    Autoscaler,
    Missing,
    Policy,
    ScaleInControl,
    Vm,
    load,
    needed_by_group,
    needed_by_instances,
)

POLICY = Policy(target=0.7, least=1, most=10)
NOW = 10_000.0


def vms(count: int, *, young: int = 0) -> list[Vm]:
    """So many VMs, the last few of them still initializing."""
    ages = [3600.0] * (count - young) + [30.0] * young
    return [Vm(f"vm{i}", NOW - age) for i, age in enumerate(ages)]


def needed(
    *loads: float | None, young: int = 0, missing: Missing = Missing.TARGET
) -> int | None:
    group = vms(len(loads), young=young)
    policy = Policy(0.7, 1, 10, missing=missing)
    by_name = {vm.name: each for vm, each in zip(group, loads, strict=True)}
    return needed_by_instances(policy, group, by_name, NOW)


class TestLoad:
    def test_is_the_average_of_the_last_two_minutes(self) -> None:
        points = [(NOW - 200, 9.0), (NOW - 100, 0.4), (NOW - 10, 0.8)]
        assert load([points], NOW) == pytest.approx(0.6)

    def test_adds_the_series_of_one_vm_up(self) -> None:
        two = [[(NOW - 10, 0.4)], [(NOW - 20, 0.3), (NOW - 10, 0.5)]]
        assert load(two, NOW) == pytest.approx(0.8)

    def test_is_missing_where_the_points_are_old(self) -> None:
        assert load([[(NOW - 121, 0.4)]], NOW) is None


class TestPerInstance:
    def test_rounds_up_as_the_guide_says(self) -> None:
        """Target 0.7: 1.5 VMs too few adds two, 1.5 too many takes one."""
        assert needed(0.91, 0.91, 0.91, 0.91, 0.91) == 7  # 6.5
        assert needed(0.49, 0.49, 0.49, 0.49, 0.49) == 4  # 3.5

    def test_stays_where_the_load_just_fits(self) -> None:
        assert needed(0.7, 0.7, 0.7) == 3  # 2.1 / 0.7 in binary is more than 3

    def test_keeps_one_vm(self) -> None:
        assert needed(0.0, 0.0) == 1

    def test_to_scale_out_ignores_those_that_initialize(self) -> None:
        assert needed(1.4, 1.4, None, None, young=2) == 4
        assert needed(1.4, 1.4, 0.0, 0.0, young=2) == 4

    def test_to_scale_in_counts_them(self) -> None:
        assert needed(0.3, 0.3, 0.1, 0.1, young=2) == 2  # 0.8 / 0.7

    @pytest.mark.parametrize(
        ("missing", "size"),
        [(Missing.NOTHING, 2), (Missing.AVERAGE, 3), (Missing.TARGET, 3)],
    )
    def test_what_a_vm_without_data_counts_for(
        self, missing: Missing, size: int
    ) -> None:
        """Two at 0.6: 1.2, 1.8 or 1.9 over 0.7."""
        assert needed(0.6, 0.6, None, missing=missing) == size

    def test_without_any_data_nothing_is_done(self) -> None:
        assert needed(None, None) is None
        assert Autoscaler(POLICY).decide(None, 2, NOW)[0] == 2


class TestPerGroup:
    def test_the_guide_s_example(self) -> None:
        assert needed_by_group(5, 100) == 20

    def test_can_go_to_nothing(self) -> None:
        assert needed_by_group(5, 0) == 0
        assert Autoscaler(Policy(5, 0, 10)).decide(0, 0, NOW)[0] == 0

    def test_rounds_up(self) -> None:
        assert needed_by_group(5, 100.1) == 21


class Group:
    """A group that takes on what is recommended."""

    def __init__(self, policy: Policy, size: int) -> None:
        self.autoscaler, self.size = Autoscaler(policy), size

    def at(self, second: float, needed: int) -> int:
        self.size, self.autoscaler = self.autoscaler.decide(
            needed, self.size, NOW + second
        )
        return self.size


class TestStabilization:
    def test_scales_out_at_once_and_in_after_ten_minutes(self) -> None:
        group = Group(POLICY, 2)
        assert group.at(0, 5) == 5
        assert group.at(15, 2) == 5
        assert group.at(599, 2) == 5
        assert group.at(600, 2) == 2

    def test_keeps_the_peak_of_the_ten_minutes(self) -> None:
        group = Group(POLICY, 2)
        group.at(0, 5)
        group.at(300, 4)
        assert group.at(600, 1) == 4
        assert group.at(900, 1) == 1

    def test_a_group_that_is_watched_anew_keeps_its_size_as_long(self) -> None:
        group = Group(POLICY, 4)
        assert group.at(0, 1) == 4
        assert group.at(600, 1) == 1

    def test_stays_within_the_policy(self) -> None:
        group = Group(Policy(0.7, 2, 6, stabilization=60), 3)
        assert group.at(0, 50) == 6
        assert group.at(60, 0) == 2


def test_a_scale_in_control_limits_what_goes_in_its_window() -> None:
    control = ScaleInControl(most=1, window=600)
    group = Group(Policy(0.7, 1, 10, stabilization=60, scale_in=control), 5)
    group.at(0, 5)
    assert group.at(60, 1) == 4
    assert group.at(300, 1) == 4
    assert group.at(661, 1) == 3
