from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sidecar.reading import Identity
from sidecar.sink_settings import SHORTEST_WRITE
from sidecar.sinks.cloud_monitoring.pace import REMEMBERED, Pace
from tests.unit.makers import IDENTITY, reading

OTHER = Identity("m", "org/m", "host:8001")


def ends(pace: Pace, *times: float) -> list[float]:
    """The end times that are sent for readings at these times, one after the other."""
    found = []
    for time in times:
        points = pace.due([reading(time=time)]).points
        pace.sent(points, stored=True)
        found += [end for _, end in points]
    return found


def test_the_first_reading_is_due() -> None:
    assert ends(Pace(), 1000.0) == [1000.0]


def test_five_seconds_lie_between_two() -> None:
    assert ends(Pace(), 1000, 1001, 1002, 1003.9, 1006, 1009) == [1000, 1006]


def test_a_poll_that_comes_a_little_early_loses_no_point() -> None:
    """At an interval of five seconds every other one would be lost."""
    assert ends(Pace(), 1000.0, 1004.98, 1010.01) == [1000.0, 1005.0, 1010.01]


def test_each_worker_has_a_pace_of_its_own() -> None:
    pace = Pace()
    pace.sent([(reading(time=1000), 1000.0)], stored=True)

    due = pace.due([reading(time=1002), reading(OTHER, time=1002)])

    assert [each.identity for each, _ in due.points] == [OTHER]


def test_a_clock_that_goes_back_is_told() -> None:
    pace = Pace()
    ends(pace, 5000.0)

    due = pace.due([reading(time=1400.0)])

    assert due.points == []
    assert due.back == 3600.0


def test_a_point_that_nobody_can_have_taken_holds_nothing_up() -> None:
    """The clock was an hour ahead while the service was away, and is put right."""
    pace = Pace()
    pace.sent([(reading(time=8600.0), 8600.0)], stored=False)

    due = pace.due([reading(time=5000.0)])

    assert [end for _, end in due.points] == [5000.0]
    assert due.back <= 0


def test_but_one_that_may_be_there_does() -> None:
    pace = Pace()
    pace.sent([(reading(time=5100.0), 5100.0)], stored=False)

    assert pace.due([reading(time=5000.0)]).back == 100.0


def test_too_soon_is_not_back() -> None:
    pace = Pace()
    ends(pace, 5000.0)

    assert pace.due([reading(time=5001.0)]).back <= 0


def test_workers_that_send_no_more_are_forgotten() -> None:
    pace = Pace()
    pace.sent([(reading(OTHER), 1000.0), (reading(), 1000.0)], stored=True)
    pace.sent([(reading(), 1001.0 + REMEMBERED)], stored=True)

    assert list(pace.known) == [IDENTITY]


def test_nothing_sent_is_nothing() -> None:
    pace = Pace()
    pace.sent([], stored=True)

    assert not pace.known


@given(st.lists(st.floats(1e9, 1e9 + 1000), max_size=60))
def test_end_times_rise_by_five_seconds_whatever_the_clock_does(
    times: list[float],
) -> None:
    found = ends(Pace(), *times)

    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    assert all(round(gap, 6) >= SHORTEST_WRITE for gap in gaps)
