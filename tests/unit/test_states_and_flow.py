from __future__ import annotations

import pytest

from sidecar.flow import (
    ENOUGH_DEPARTURES,
    FEW_DEPARTURES,
    FEWEST_INTERVALS,
    LONGEST,
    SPAN,
    Flow,
)
from sidecar.interval import Interval
from sidecar.states import Quiet, State, judge
from tests.unit.makers import interval


def states(*found: Interval, service_time: float | None = None) -> list[State]:
    quiet, result = Quiet(), []
    for each in found:
        state, quiet = judge(quiet, each, service_time)
        result.append(state)
    return result


class TestStates:
    def test_the_names_are_those_that_are_published(self) -> None:
        assert [str(state) for state in State] == [
            "unreachable",
            "baseline",
            "idle",
            "serving",
            "saturated",
            "stalled",
            "sleeping",
        ]

    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            (interval(5, 0), State.IDLE),
            (interval(5, 3), State.SERVING),
            (interval(5, 0, running=(0, 2)), State.SERVING),
            (interval(5, 3, running=(8, 8), waiting=(1, 2)), State.SATURATED),
            # One reading of a queue proves nothing.
            (interval(5, 3, running=(8, 8), waiting=(0, 9)), State.SERVING),
            # The gauge dips between steps: one running with 15 waiting is full.
            (interval(5, 3, running=(8, 1), waiting=(15, 15)), State.SATURATED),
        ],
    )
    def test_one_interval(self, found: Interval, expected: State) -> None:
        assert states(found) == [expected]

    def test_stalled_after_three_intervals_without_movement(self) -> None:
        frozen = [interval(5 * i, 0, running=(106, 106)) for i in range(1, 6)]

        assert states(*frozen) == [State.SERVING] * 2 + [State.STALLED] * 3

    def test_one_counter_clears_it(self) -> None:
        frozen = [interval(5 * i, 0, running=(6, 6)) for i in range(1, 4)]
        moved = interval(20, 0, running=(6, 6), generation_tokens=1.0)

        assert states(*frozen, moved)[-2:] == [State.STALLED, State.SERVING]

    def test_long_requests_are_quiet_without_token_counters(self) -> None:
        frozen = [interval(5 * i, 0, running=(1, 1)) for i in range(1, 15)]

        found = states(*frozen, service_time=60.0)

        assert found.index(State.STALLED) == 12  # 65 s of quiet

    def test_a_worker_without_requests_is_never_stalled(self) -> None:
        assert set(states(*[interval(5 * i, 0) for i in range(9)])) == {State.IDLE}


class TestFlow:
    def test_rates_over_the_time_they_took(self) -> None:
        flow = Flow().after(interval(5, 10, running=(0, 4)))
        flow = flow.after(interval(10, 20, running=(4, 6), waiting=(0, 5)))

        assert flow.throughput == 3.0
        assert flow.demand == (30 + 6 + 5) / 10
        assert flow.present == (4 + 11) / 2
        assert flow.waiting == 5 / 2

    def test_a_slow_worker_is_averaged_over_the_whole_span(self) -> None:
        flow = Flow()
        for i in range(1, 40):
            flow = flow.after(interval(5.0 * i, 1))

        assert sum(i.duration for i in flow.intervals) == SPAN

    def test_a_very_slow_one_over_minutes_where_that_is_asked_for(self) -> None:
        flow = Flow(fewest=FEW_DEPARTURES)
        for i in range(1, 240):
            flow = flow.after(interval(5.0 * i, i % 9 == 0))

        seconds = sum(i.duration for i in flow.intervals)
        assert SPAN < seconds <= LONGEST
        assert flow.throughput == pytest.approx(1 / 45, rel=0.1)

    def test_a_few_departures_in_a_few_intervals_settle_nothing(self) -> None:
        flow = Flow()
        for i in range(1, 4):
            flow = flow.after(interval(5.0 * i, 3))
            assert not flow.is_settled
        assert flow.after(interval(20.0, 3)).is_settled

    @pytest.mark.parametrize("poll", [30.0, 60.0, 600.0])
    def test_polls_far_apart_settle_it_as_well(self, poll: float) -> None:
        flow = Flow(fewest=FEW_DEPARTURES)
        for i in range(1, 4):
            flow = flow.after(interval(poll * i, poll, duration=poll))

        assert flow.is_settled
        assert flow.throughput == 1.0

    def test_a_busy_worker_shows_a_change_sooner(self) -> None:
        flow = Flow()
        for i in range(1, 40):
            flow = flow.after(interval(5.0 * i, ENOUGH_DEPARTURES))

        assert len(flow.intervals) == FEWEST_INTERVALS

    def test_a_long_interval_stands_alone(self) -> None:
        flow = Flow().after(interval(5, 1)).after(interval(65, 120, duration=60.0))

        assert flow.throughput == 2.0

    def test_nothing_yet(self) -> None:
        assert (Flow().throughput, Flow().demand, Flow().present) == (0, 0, 0)
