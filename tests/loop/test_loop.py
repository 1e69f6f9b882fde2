"""The loop closed: workers, their sidecars, Cloud Monitoring, and an autoscaler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import pytest

from sidecar.pipeline import DRAIN
from sidecar.simulator import measure
from tests.loop.pool import LOADING, MIX, SHAPE, Moment, Pool
from tests.loop.scalers import Beside
from tests.loop.scenes import MINUTE, SCALERS, TARGET, between, changes, during, pool

LOW, HIGH = 0.3, 1.8
"""Workers' worth of demand."""

RISE, TOP, LEVEL, FALL, LOW_AGAIN, END = 3, 23, 33, 93, 97, 114
"""Minutes: the demand rises from RISE to TOP, the pool has settled at LEVEL, and the
demand stays until FALL and is low from LOW_AGAIN on."""


def needed(workers: float) -> int:
    """The size at which the demand loads every worker to the target or less."""
    return ceil(workers / TARGET)


@pytest.fixture(params=SCALERS, scope="class")
def day(request: pytest.FixtureRequest) -> Sequence[Moment]:
    demand = between((0, LOW), (RISE, LOW), (TOP, HIGH), (FALL, HIGH), (LOW_AGAIN, LOW))
    with pool(request.param, demand, needed(LOW), busiest=HIGH) as found:
        found.run(END * MINUTE)
        return found.history


@pytest.mark.slow
class TestDay:
    """Demand rises from 0.3 to 1.8 workers' worth, stays for 70 minutes, and falls."""

    def test_the_pool_grows_to_what_the_demand_needs(
        self, day: Sequence[Moment]
    ) -> None:
        settled = during(day, LEVEL, LEVEL)[0].size
        assert needed(HIGH) <= settled <= needed(HIGH) + 1, changes(day)

    def test_it_does_not_overshoot_on_the_way(self, day: Sequence[Moment]) -> None:
        most = max(each.size for each in during(day, 0, LEVEL))
        assert most <= needed(HIGH) + 1, changes(day)

    def test_no_queue_outlasts_the_loading_of_a_worker(
        self, day: Sequence[Moment]
    ) -> None:
        queued = [each.at for each in day if each.waiting > SHAPE.max_num_seqs]
        assert not queued or max(queued) - min(queued) <= LOADING, queued

    def test_it_does_not_flap_in_an_hour_of_constant_load(
        self, day: Sequence[Moment]
    ) -> None:
        hour = during(day, LEVEL, FALL)
        assert hour[-1].at - hour[0].at == 60 * MINUTE
        assert len(changes(hour)) <= 1, changes(hour)
        assert min(each.size for each in hour) >= needed(HIGH)

    def test_it_shrinks_when_the_demand_is_gone(self, day: Sequence[Moment]) -> None:
        assert day[-1].size == needed(LOW), changes(day)
        # Step by step downwards: nothing was taken away too early.
        sizes = [each.size for each in during(day, FALL, END)]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("scaler", SCALERS)
class TestStep:
    """Demand jumps from 0.3 to 1.8 workers' worth; a new worker loads for 3 minutes."""

    def test_it_asks_for_no_more_than_twice_what_the_demand_needs(
        self, scaler: str
    ) -> None:
        """Of the queue that grows while a worker loads it asks for what does it in
        `DRAIN` seconds, and not for as many workers as the queue fills."""
        demand = between((0, LOW), (5, LOW), (5.1, HIGH))
        with pool(scaler, demand, 1, busiest=HIGH, most=20) as found:
            found.run(16 * MINUTE)

        most = max(each.size for each in found.history)
        longest = max(each.waiting for each in found.history)
        queue = longest / DRAIN / measure(SHAPE, MIX).capacity
        assert most >= needed(HIGH)
        assert most <= 2 * needed(HIGH + queue), changes(found.history)
        assert found.history[-1].waiting == 0


PART = 1.6
"""Workers' worth of demand on three, which is what it needs: two are loaded to 0.8."""

HIDDEN, RESET, UNROUTED, UPSET_END = 8, 18, 24, 38
"""Minutes at which one of the workers loses its page, its counts, and its requests."""

HIDDEN_FOR, UNROUTED_FOR = 7, 10
"""Minutes. The first is longer than any of the readers looks back."""


@pytest.fixture(params=SCALERS, scope="class")
def upset(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool(request.param, between((0, PART)), needed(PART), busiest=PART) as found:
        one, two, three = found.members
        found.run(HIDDEN * MINUTE)
        one.answers = False
        found.run(HIDDEN_FOR * MINUTE)
        one.answers = True
        found.run((RESET - HIDDEN - HIDDEN_FOR) * MINUTE)
        two.restart()
        found.run((UNROUTED - RESET) * MINUTE)
        three.routed = False
        found.run(UNROUTED_FOR * MINUTE)
        three.routed = True
        found.run((UPSET_END - UNROUTED - UNROUTED_FOR) * MINUTE)
        yield found


@pytest.mark.slow
class TestUpsets:
    """Three workers under a constant 1.6, to one of which something happens."""

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            pytest.param(HIDDEN, RESET, id="its page does not answer"),
            pytest.param(RESET, UNROUTED, id="its counters begin anew"),
            pytest.param(UNROUTED, UPSET_END, id="it idles"),
        ],
    )
    def test_nothing_is_scaled(self, upset: Pool, start: int, end: int) -> None:
        moments = during(upset.history, start, end)
        assert {each.size for each in moments} == {needed(PART)}, changes(moments)

    def test_whatever_a_worker_without_data_counts_for(self, upset: Pool) -> None:
        if isinstance(upset.scaler, Beside):
            assert set(upset.scaler.sizes) == {(needed(PART),) * 3}


@pytest.mark.parametrize("scaler", SCALERS)
class TestIdle:
    def test_a_pool_that_was_never_asked_shrinks_to_one_and_stays(
        self, scaler: str
    ) -> None:
        with pool(scaler, between((0, 0.0)), 2, busiest=1.0) as found:
            found.run(20 * MINUTE)

        ((minute, size),) = changes(found.history)
        assert (5 <= minute <= 11, size) == (True, 1)

    def test_a_pool_that_falls_idle_shrinks_to_one_and_stays(self, scaler: str) -> None:
        demand = between((0, 1.2), (5, 1.2), (5.1, 0.0))
        with pool(scaler, demand, 2, busiest=1.2) as found:
            found.run(24 * MINUTE)

        ((minute, size),) = changes(found.history)
        assert (10 <= minute <= 18, size) == (True, 1)
