from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.base import GENERATION_TOKENS
from sidecar.exposition import Labels
from sidecar.interval import between
from tests.unit.makers import interval, sample

STOP: Labels = (("finished_reason", "stop"),)
ABORT: Labels = (("finished_reason", "abort"),)


class TestDeltas:
    def test_completions_leave_out_what_was_given_up(self) -> None:
        earlier = sample(0, 0, 4, finished={STOP: 10.0, ABORT: 1.0})
        later = sample(5, 0, 6, finished={STOP: 13.0, ABORT: 3.0})

        found = between(earlier, later)

        assert found is not None
        assert (found.completions, found.departures) == (3, 5)
        assert (found.duration, found.mean_running) == (5, 5)
        assert found.arrivals == 5 + 2

    def test_a_series_born_in_between_started_from_zero(self) -> None:
        earlier = sample(0, 0, finished={STOP: 10.0})
        later = sample(5, 0, finished={STOP: 12.0, ABORT: 4.0})

        found = between(earlier, later)

        assert found is not None
        assert found.departures == 6

    def test_what_one_end_lacks_is_not_known(self) -> None:
        found = between(sample(0, 1), sample(5, 2, tokens=900))

        assert found is not None
        assert found.generation_tokens is None
        assert found.prefill_seconds is None

    @given(
        st.lists(st.integers(0, 1000), min_size=2, max_size=20),
        st.integers(1, 100),
    )
    def test_intervals_add_up(self, steps: list[int], gap: int) -> None:
        """However the time is cut, nothing is lost and nothing counted twice."""
        totals = [sum(steps[: i + 1]) for i in range(len(steps))]
        samples = [sample(gap * i, total) for i, total in enumerate(totals)]
        found = [between(a, b) for a, b in pairwise(samples)]

        whole = between(samples[0], samples[-1])

        assert whole is not None
        assert sum(i.completions for i in found if i) == whole.completions
        assert sum(i.duration for i in found if i) == whole.duration


class TestNewBeginnings:
    def test_a_counter_that_fell(self) -> None:
        assert between(sample(0, 500), sample(5, 7)) is None

    def test_a_token_counter_that_fell(self) -> None:
        assert between(sample(0, 5, tokens=9), sample(5, 6, tokens=1)) is None

    def test_a_series_that_vanished(self) -> None:
        later = sample(5, 0, finished={ABORT: 99.0})

        assert between(sample(0, 5), later) is None

    def test_a_process_that_started_in_between(self) -> None:
        """The counter may have overtaken its old value since."""
        earlier, later = (
            sample(0, 3, started_at=100.0),
            sample(90, 50, started_at=160.0),
        )

        assert between(earlier, later) is None
        assert between(earlier, replace(later, started_at=100.4)) is not None

    @pytest.mark.parametrize("change", [{"model_name": "other"}, {"engine": "dynamo"}])
    def test_another_model_or_engine(self, change: dict[str, str]) -> None:
        assert between(sample(0, 3), replace(sample(5, 4), **change)) is None  # type: ignore[arg-type]

    def test_time_that_does_not_move(self) -> None:
        assert between(sample(5, 3), sample(5, 4)) is None


class TestMovement:
    def test_tokens_are_movement_without_a_departure(self) -> None:
        assert interval(5, 0, generation_tokens=3.0).moved
        assert not interval(5, 0, generation_tokens=0.0).moved

    def test_the_flow_balance_is_never_negative(self) -> None:
        assert interval(5, 1, running=(9, 0)).arrivals == 0

    def test_counters_by_our_name(self) -> None:
        found = between(sample(0, 1, tokens=10), sample(5, 2, tokens=25))

        assert found is not None
        assert found.generation_tokens == 15
        assert sample(0, 1, tokens=10).total(GENERATION_TOKENS) == 10


class TestQueued:
    @pytest.mark.parametrize(
        ("running", "waiting", "more", "expected"),
        [
            ((8, 8), (0, 5), {}, False),
            ((8, 8), (1, 5), {}, True),
            # Arrivals that the mocker has not put into a step yet.
            ((2, 2), (1, 1), {"sequence_limit": 8, "kv_usage": 0.1}, False),
            ((2, 2), (1, 1), {"sequence_limit": 8}, True),
            ((2, 2), (1, 1), {"kv_usage": 0.1}, True),
            ((8, 8), (1, 1), {"sequence_limit": 8, "kv_usage": 0.1}, True),
            ((2, 2), (1, 1), {"sequence_limit": 8, "kv_usage": 0.9}, True),
            # Long prompts wait for the token budget beside many free slots.
            ((40, 40), (30, 30), {"sequence_limit": 256, "kv_usage": 0.4}, True),
        ],
    )
    def test_it(
        self,
        running: tuple[float, float],
        waiting: tuple[float, float],
        more: dict[str, float],
        expected: bool,
    ) -> None:
        assert interval(5, 1, running, waiting, **more).queued is expected
