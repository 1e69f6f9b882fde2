from __future__ import annotations

import random
from math import exp

import pytest

from sidecar.estimators.change import Change
from sidecar.estimators.mix import Count, Lengths, Ratio
from sidecar.estimators.prompts import Prefills
from sidecar.estimators.saturation import Saturation
from sidecar.estimators.shapes import prior
from sidecar.estimators.work import Unit, Work
from tests.unit.makers import interval


def scattered() -> Lengths:
    """Requests of 100 tokens, in blocks that chance makes longer and shorter."""
    lengths = Lengths()
    for _ in range(50):
        lengths = lengths.after(700.0, 10.0).after(1300.0, 10.0)
    return lengths


class TestLengths:
    def test_tokens_per_request(self) -> None:
        lengths = Lengths()
        for _ in range(50):
            lengths = lengths.after(1000.0, 10.0)

        assert lengths.mean == pytest.approx(100)
        assert lengths.changes == 0

    def test_another_mix_is_noticed_at_once_where_it_is_far(self) -> None:
        lengths = scattered().after(5000.0, 10.0)

        assert lengths.changes == 1
        assert lengths.mean == pytest.approx(500)

    def test_and_within_two_blocks_where_it_is_near(self) -> None:
        one = scattered().after(2700.0, 10.0)
        two = one.after(2700.0, 10.0)

        assert one.mean == pytest.approx(100, rel=0.01)
        assert two.mean == pytest.approx(270)
        assert (one.changes, two.changes) == (0, 1)

    def test_a_few_requests_are_enough_where_they_are_much_longer(self) -> None:
        far = scattered().after(3600.0, 6.0)

        assert far.changes == 1
        assert far.mean == pytest.approx(600)

    def test_a_block_has_as_many_requests_as_run(self) -> None:
        """Fewer say more of how far those that run have come than of their lengths."""
        before = scattered()
        open_block = before.after(5000.0, 20.0, running=50.0)

        assert open_block.changes == before.changes
        assert open_block.block.requests == 20.0

    def test_few_that_end_in_ten_seconds_are_no_other_mix(self) -> None:
        """As it came in a pool under constant load: its capacity was halved."""
        known = Count(tokens=17523.0, requests=599.0)
        lengths = Lengths(known, scatter=0.25)
        for tokens, done, growth in ((365.0, 7.0, -1.0), (338.0, 5.0, 2.0)):
            lengths = lengths.after(tokens, done, growth, 10.0)

        assert lengths.changes == 0

    def test_but_a_few_less_than_usual_in_an_interval_are_chance(self) -> None:
        """As where all begin and end together, and are of one length."""
        alike = Lengths()
        for _ in range(50):
            alike = alike.after(1000.0, 10.0)

        assert alike.after(1000.0, 5.0).changes == 0

    def test_one_odd_block_is_chance(self) -> None:
        lengths = scattered().after(2700.0, 10.0).after(1000.0, 10.0)

        assert lengths.changes == 0
        assert lengths.mean == pytest.approx(103, abs=2)

    def test_what_scatters_widely_is_not_another_mix_each_time(self) -> None:
        """Prompts of 10 or of 10 000 tokens, as they come."""
        rng = random.Random(2)
        lengths = Lengths()
        for _ in range(2000):
            tokens = sum(rng.choice((10.0, 10.0, 10.0, 10_000.0)) for _ in range(5))
            lengths = lengths.after(tokens, 5.0)

        assert lengths.changes <= 15
        assert lengths.mean == pytest.approx(2507, rel=0.2)

    @pytest.mark.parametrize("seed", range(5))
    def test_chance_is_no_other_mix(self, seed: int) -> None:
        rng = random.Random(seed)
        lengths = Lengths()
        for _ in range(400):
            tokens = sum(rng.lognormvariate(4.4, 0.6) for _ in range(5))
            lengths = lengths.after(tokens, 5.0)

        assert lengths.mean == pytest.approx(exp(4.4 + 0.18), rel=0.1)
        assert lengths.changes == 0

    def test_a_page_without_tokens_says_nothing(self) -> None:
        assert Lengths().after(None, 10.0) == Lengths()
        assert Lengths().mean is None


class TestRatio:
    def test_of_sums(self) -> None:
        ratio = Ratio().after(10.0, 2.0, 5).after(None, 5.0, 5).after(30.0, 2.0, 5)

        assert ratio.value == pytest.approx(10, rel=0.01)
        assert Ratio().value is None


class TestPrompts:
    def learned(self, prefill_seconds: float | None) -> Prefills:
        prefills = Prefills()
        for i in range(1, 40):
            prefills = prefills.after(
                interval(
                    5.0 * i,
                    10,
                    generation_tokens=1000.0,
                    prompt_tokens=20_000.0,
                    cached_tokens=10_000.0,
                    decode_seconds=10.0,
                    decode_tokens=1000.0,
                    prefill_seconds=prefill_seconds,
                )
            )
        return prefills

    def test_it_is_what_a_prefill_takes_beyond_a_step(self) -> None:
        """10 prefills of 1000 computed tokens took 11 s with steps of 10 ms."""
        cost = self.learned(11.0).cost(0.01)

        assert cost.seconds == pytest.approx((1.1 - 0.01) / 1000, rel=0.2)
        assert cost.log_sd < 0.15

    def test_the_prior_stands_in(self) -> None:
        cost = self.learned(None).cost(0.01)

        assert cost.seconds == pytest.approx(0.01 * prior().prompt_token)
        assert cost.log_sd == prior().prompt_log_sd

    def test_a_prefill_no_longer_than_a_step_tells_nothing(self) -> None:
        assert self.learned(0.09).cost(0.01) == self.learned(None).cost(0.01)

    def test_nothing_costs_nothing(self) -> None:
        assert Prefills().cost(0.0).seconds == 0.0
        assert Prefills().cost(0.0).stalled(1e9) == 0.0

    def test_they_do_not_take_all_the_time(self) -> None:
        assert self.learned(11.0).cost(0.01).stalled(1e9) == 0.9


class TestChange:
    def test_one_window_proves_nothing_however_far(self) -> None:
        assert not Change().after(50.0, Work()).is_certain

    def test_two_that_are_far_off_do(self) -> None:
        change = Change().after(50.0, Work()).after(50.0, Work())

        assert change.is_certain
        assert len(change.recent) == 2

    def test_to_both_sides_is_no_change(self) -> None:
        change = Change().after(4.0, Work()).after(-4.0, Work())

        assert not change.is_certain

    def test_many_that_are_off_a_little_do(self) -> None:
        change = Change()
        for _ in range(12):
            change = change.after(-1.1, Work())

        assert change.is_certain
        assert len(change.recent) == 8

    def test_chance_seldom_does(self) -> None:
        rng = random.Random(1)
        change, alarms = Change(), 0
        for _ in range(5000):
            change = change.after(rng.gauss(0, 1), Work())
            if change.is_certain:
                alarms, change = alarms + 1, Change()

        assert alarms <= 5


class TestSaturation:
    def test_only_a_queue_counts(self) -> None:
        free = interval(5, 60, running=(9, 9))
        full = interval(10, 60, running=(16, 16), waiting=(9, 9))

        assert Saturation().after(free, Unit.REQUEST).rate(Unit.REQUEST) is None
        rate = Saturation().after(full, Unit.REQUEST).rate(Unit.REQUEST)
        assert rate is not None
        assert rate.median == pytest.approx(12)

    def test_it_is_forgotten_by_more_of_it(self) -> None:
        known = Saturation()
        for i in range(1, 200):
            known = known.after(
                interval(5.0 * i, 60, running=(16, 16), waiting=(9, 9)), Unit.REQUEST
            )
        for i in range(200, 400):
            known = known.after(
                interval(5.0 * i, 30, running=(16, 16), waiting=(9, 9)), Unit.REQUEST
            )

        rate = known.rate(Unit.REQUEST)
        assert rate is not None
        assert rate.median == pytest.approx(6, rel=0.05)
        assert known.seconds < 310

    def test_a_short_or_an_old_queue_proves_little(self) -> None:
        full = interval(5, 60, running=(16, 16), waiting=(9, 9), generation_tokens=6e3)
        short = Saturation().after(full, Unit.TOKEN)
        long = short
        for _ in range(60):
            long = long.after(full, Unit.TOKEN)
        old = long
        for i in range(720):
            old = old.after(interval(5.0 * i, 20, running=(4, 4)), Unit.TOKEN)

        spreads = [each.rate(Unit.TOKEN) for each in (long, short, old)]
        assert [rate and round(rate.sd, 2) for rate in spreads] == [
            pytest.approx(0.05, abs=0.02),
            pytest.approx(0.3, abs=0.02),
            pytest.approx(1.2, abs=0.05),
        ]
