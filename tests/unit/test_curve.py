from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.estimators.base import Estimate, Learning
from sidecar.estimators.curve import WARM_UP, CurveEstimator
from sidecar.estimators.knowledge import Knowledge
from sidecar.estimators.work import Unit
from sidecar.interval import Interval
from tests.accuracy import recorded
from tests.accuracy.curves import load as load_curves
from tests.accuracy.runs import last, run
from tests.accuracy.shift import Shift
from tests.accuracy.simulated import Work, everything, requests, tokens
from tests.accuracy.workloads import Wandering
from tests.unit.line_worker import (
    ALPHA,
    LIMIT,
    TOKENS,
    TRUTH,
    learn,
    learning,
    polls,
    queue,
    service_time,
    wandering,
)
from tests.unit.makers import interval


class TestCapacity:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize(("counted", "within"), [(TOKENS, 0.1), (None, 0.35)])
    def test_it_is_seen_from_a_quarter_of_the_load(
        self, seed: int, counted: float | None, within: float
    ) -> None:
        load = wandering(1, LIMIT / 4, 240, seed)

        estimate = learn(CurveEstimator(LIMIT), polls(load, seed, tokens=counted))

        assert estimate is not None
        assert estimate.capacity == pytest.approx(TRUTH, rel=within)

    def test_the_highest_rate_seen_is_far_below(self) -> None:
        load = wandering(1, LIMIT / 4, 240)

        peak = max(each.completions / each.duration for each in polls(load))

        assert peak < 0.75 * TRUTH

    def test_the_band_holds_the_truth_and_narrows(self) -> None:
        load = wandering(1, LIMIT / 2, 480)
        early = learn(CurveEstimator(LIMIT), polls(load[:12]))
        late = learn(CurveEstimator(LIMIT), polls(load))

        assert early is not None
        assert late is not None
        for estimate in (early, late):
            assert estimate.lower is not None
            assert estimate.upper is not None
            assert estimate.lower < TRUTH < estimate.upper
        assert late.upper / late.lower < 0.8 * early.upper / early.lower  # type: ignore[operator]

    def test_the_rate_while_requests_wait_is_the_capacity(self) -> None:
        full = [
            interval(5.0 * i, 60, running=(LIMIT, LIMIT), waiting=(9, 9))
            for i in range(1, 13)
        ]

        estimate = learn(CurveEstimator(), full)

        assert estimate is not None
        assert estimate.capacity == pytest.approx(12.0, rel=0.05)
        assert estimate.concurrency_limit == LIMIT
        assert estimate.limited_by == "requests wait there"
        assert "while requests waited" in estimate.method

    def test_the_latency_objective_caps_it(self) -> None:
        load = wandering(1, LIMIT / 2, 480)
        objective = service_time(20)

        estimate = learn(CurveEstimator(LIMIT, objective), polls(load))

        assert estimate is not None
        assert estimate.limited_by == "latency objective"
        assert estimate.concurrency_limit == pytest.approx(20, rel=0.3)
        assert estimate.capacity == pytest.approx(20 / objective, rel=0.2)

    def test_an_objective_beyond_the_limit_changes_nothing(self) -> None:
        load = wandering(1, LIMIT / 2, 240)

        assert learn(CurveEstimator(LIMIT, 3600.0), polls(load)) == learn(
            CurveEstimator(LIMIT), polls(load)
        )


class TestConstantLoad:
    """A load that never moves tells nothing of the slope, and noise must not."""

    def found(self, rng: random.Random) -> list[Interval]:
        """R = 3 s at n = 8, whatever n was: lengths scatter, arrivals do not care."""
        found, n = [], 8.0
        for i in range(1, 721):
            previous, n = n, float(max(0, round(rng.gauss(8, 8**0.5))))
            done = max(0, round(rng.gauss(5 * 8 / 3, (5 * 8 / 3) ** 0.5)))
            found.append(interval(5.0 * i, done, running=(previous, n)))
        return found

    @pytest.mark.parametrize("seed", range(4))
    def test_no_slope_is_made_of_noise(self, seed: int) -> None:
        """On single readings R = n·T/k rises with n as steeply as it can."""
        rng = random.Random(seed)

        known = learning(CurveEstimator(LIMIT), self.found(rng))

        r = {n: n / known.state.known.throughput(n).median for n in (8.0, 64.0)}
        # Of the prior's slope R grows 2.2 times from 8 to 64, of the noise's 8 times.
        assert r[64.0] / r[8.0] < 4.0

    def test_tokens_are_exact_and_their_gauge_is_not(self) -> None:
        rng = random.Random(7)
        found = [
            replace(each, generation_tokens=5 * 8 / 3 * TOKENS)
            for each in self.found(rng)
        ]

        known = learning(CurveEstimator(LIMIT), found)

        r = {n: n / known.state.known.throughput(n).median for n in (8.0, 64.0)}
        assert r[64.0] / r[8.0] < 4.0

    def test_noise_does_not_latch(self) -> None:
        """An hour at one request a second, far below: the highest poll is 2.6 times."""
        rng = random.Random(3)
        found = []
        for i in range(1, 721):
            done = sum(rng.random() < 0.01 for _ in range(500))
            n = (float(rng.random() < 0.5) + 1, float(rng.random() < 0.5) + 1)
            found.append(interval(5.0 * i, done, running=n))
        half = learning(CurveEstimator(LIMIT), found[:360]).estimate
        whole = learning(CurveEstimator(LIMIT), found).estimate

        assert max(each.completions for each in found) / 5 > 2
        assert half is not None
        assert whole is not None
        assert whole.capacity == pytest.approx(half.capacity, rel=0.15)


class TestHolding:
    def test_an_idle_worker_says_nothing(self) -> None:
        known = learning(CurveEstimator(LIMIT), polls(wandering(1, 20, 60)))
        before = known

        for i in range(1000):
            known = known.after(interval(300 + 5.0 * i, 0))

        assert known.state == before.state
        assert known.estimate == before.estimate

    def test_nothing_is_said_before_anything_was_served(self) -> None:
        assert learn(CurveEstimator(), [interval(5, 0, running=(0, 3))]) is None

    def test_a_gauge_that_may_just_have_dipped_says_nothing(self) -> None:
        one = interval(5, 9, running=(0, 1), generation_tokens=900.0)

        assert learn(CurveEstimator(), [one]) is None

    def test_a_new_worker_s_first_requests_teach_nothing(self) -> None:
        """Kernels compile: they take ten times as long."""
        slow = [
            interval(5.0 * i, 1, running=(1, 1), left_before=float(i - 1))
            for i in range(1, int(WARM_UP) + 1)
        ]
        load = wandering(1, LIMIT / 3, 120)
        warm = [replace(each, left_before=100.0) for each in polls(load)]

        known = learning(CurveEstimator(LIMIT), slow)

        assert known.state == Knowledge().limited_to(LIMIT)
        assert learn(CurveEstimator(LIMIT), [*slow, *warm]) == learn(
            CurveEstimator(LIMIT), warm
        )

    def test_the_state_does_not_grow(self) -> None:
        estimator = CurveEstimator(LIMIT)
        known: Learning[Knowledge] = Learning.begin(estimator)
        sizes = []
        for each in polls(wandering(1, LIMIT, 4000)):
            known = known.after(each)
            sizes.append(len(known.state.levels.works))

        assert max(sizes) < 40
        assert max(sizes[2000:]) <= max(sizes[:2000]) + 4

    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 500),
                st.integers(0, 300),
                st.integers(0, 300),
                st.floats(0, 1),
                st.none() | st.floats(0, 1e5),
                st.none() | st.floats(0, 1e6),
                st.floats(0, 100),
            ),
            min_size=1,
            max_size=60,
        )
    )
    def test_any_page_gives_a_finite_positive_estimate_or_none(
        self,
        rows: list[tuple[int, int, int, float, float | None, float | None, float]],
    ) -> None:
        found, running, waiting = [], 0, 0
        for i, row in enumerate(rows, start=1):
            done, now, queue, usage, seconds, counted, preempted = row
            found.append(
                interval(
                    5.0 * i,
                    done,
                    running=(running, now),
                    waiting=(waiting, queue),
                    kv_usage=usage,
                    kv_tokens=1e5,
                    decode_seconds=seconds,
                    decode_tokens=counted,
                    generation_tokens=counted,
                    prompt_tokens=counted,
                    prefill_seconds=seconds,
                    preemptions=preempted,
                )
            )
            running, waiting = now, queue

        estimate = learn(CurveEstimator(latency_objective=3.0), found)

        if estimate is not None:
            assert estimate.lower is not None
            assert estimate.upper is not None
            assert 0 < estimate.lower <= estimate.upper < 1e12
            assert 0 < estimate.capacity <= estimate.upper


class TestChange:
    """Requests that become four times as long, in one step."""

    def test_requests_alone(self) -> None:
        load = wandering(4, LIMIT / 3, 480)
        known: Learning[Knowledge] = Learning.begin(CurveEstimator(LIMIT))
        ratios = []
        for i, each in enumerate(polls(load)):
            done = each.completions * (1.0 if i < 240 else 0.25)
            known = known.after(replace(each, completions=done))
            truth = TRUTH if i < 240 else TRUTH / 4
            estimate = known.estimate
            ratios.append(estimate.capacity / truth if estimate else 1.0)

        before, two_minutes_on, ten_minutes_on = 240, 240 + 24, 240 + 120
        assert all(0.7 < ratio < 1.4 for ratio in ratios[120:before])
        assert all(0.5 < ratio < 2.0 for ratio in ratios[two_minutes_on:])
        assert all(0.7 < ratio < 1.4 for ratio in ratios[ten_minutes_on:])

    @pytest.mark.slow
    @pytest.mark.parametrize("strip", [everything, tokens])
    @pytest.mark.parametrize("preset", ["demo", "dense-8b", "small-gpu"])
    def test_simulated(self, preset: str, strip: object) -> None:
        off, error = Shift(preset, 0, strip).run()  # type: ignore[arg-type]

        assert off <= 120
        assert error < 0.15


class TestCliff:
    """Llama 2 70B on two A100: 1.73 requests/s at 32 running, 0.40 at 64."""

    def test_what_the_queue_shows_is_believed(self) -> None:
        light = polls(wandering(1, LIMIT / 2, 240), tokens=TOKENS)
        known = learning(CurveEstimator(LIMIT), light)
        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(TRUTH, rel=0.1)

        for each in queue(1200.0, 12, TRUTH / 4):
            known = known.after(each)

        now = known.estimate
        assert now is not None
        assert now.capacity == pytest.approx(TRUTH / 4, rel=0.1)

    def test_preempted_work_is_not_on_the_curve(self) -> None:
        light = list(polls(wandering(1, LIMIT / 2, 240), tokens=TOKENS))
        over = [replace(each, preemptions=50.0) for each in light[:24]]

        known = learning(CurveEstimator(LIMIT), light)
        after = learning(CurveEstimator(LIMIT), [*light, *over])

        assert after.state.levels == known.state.levels


class TestUnits:
    def test_tokens_that_the_engine_times_need_no_gauge(self) -> None:
        """With a gauge that always reads 1, the area is what the engine says."""
        load = wandering(2, LIMIT / 3, 240)
        found = [
            replace(each, running=(1.0, 1.0)) for each in polls(load, tokens=TOKENS)
        ]

        estimate = learn(CurveEstimator(LIMIT), found)

        assert estimate is not None
        assert estimate.capacity == pytest.approx(TRUTH, rel=0.1)
        assert "tokens a request" in estimate.method

    def test_a_page_that_begins_to_count_tokens_jumps_nowhere(self) -> None:
        load = wandering(2, LIMIT / 3, 240)
        found = list(polls(load, tokens=TOKENS))
        known = learning(CurveEstimator(LIMIT), map(requests, found[:120]))
        before = known.estimate
        for each in found[120:132]:
            known = known.after(each)

        assert before is not None
        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(before.capacity, rel=0.3)


class TestPublishedCurves:
    """A few, of each kind; all of them are in `make accuracy`."""

    @pytest.mark.parametrize(
        ("name", "share", "within"),
        [
            ("accelmark_h100-80gb-hbm3x1_meta-llama-3-8b-instruct", 0.5, 0.15),
            ("a100x2_llama-3.1-8b_splitwise", 0.5, 0.15),
            ("h100x8_llama2-70b_splitwise", 0.5, 0.2),
            ("accelmark_a100-sxm4-40gbx8_mixtral-8x7b-instruct-v0.1", 0.5, 0.3),
            ("accelmark_rtx-6000-adax1_meta-llama-3-8b-instruct", 0.25, 0.3),
        ],
    )
    def test_within(self, name: str, share: float, within: float) -> None:
        curve = next(each for each in load_curves() if each.name == name)

        for seed in range(3):
            found = Wandering(curve, share, seed).run()

            assert found.curve == pytest.approx(1, abs=within)
            assert found.lower < found.curve < found.upper


@pytest.mark.slow
class TestSimulated:
    """A quarter of an hour between 5 % and 30 % of the capacity."""

    @pytest.mark.parametrize(
        "preset", ["demo", "dense-8b", "dense-70b", "short-chat", "long-prompt"]
    )
    def test_tokens_that_the_engine_times(self, preset: str) -> None:
        assert Work(preset, 0.05, 0.3, 15, 1).run().curve == pytest.approx(1, abs=0.12)

    @pytest.mark.parametrize("preset", ["small-gpu", "long-answers"])
    def test_a_full_cache_is_foreseen(self, preset: str) -> None:
        """From a twentieth of the load on: how many it holds, and what is lost then."""
        found = Work(preset, 0.05, 0.3, 15, 1)
        estimate = last(CurveEstimator(found.limit), found.intervals()).estimate

        assert isinstance(estimate, Estimate)
        assert estimate.limited_by == "KV cache"
        assert estimate.capacity / found.capacity == pytest.approx(1, abs=0.2)

    def test_its_size_on_the_page_is_enough(self) -> None:
        """Where usage is not exported."""
        work = Work("small-gpu", 0.05, 0.3, 15, 1)
        found = (replace(each, kv_usage=None) for each in work.intervals())

        assert run(found, work.limit, work.capacity).curve == pytest.approx(1, abs=0.25)


class TestRealWorker:
    """A recording of a real vLLM that could sustain 16.1 requests/s at 16 running."""

    @pytest.mark.parametrize(("step", "most"), [(1, 1.21), (5, 1.3)])
    def test_the_sine(self, step: int, most: float) -> None:
        found = recorded.ratios(step)

        assert all(0.8 < ratio < most for at, ratio in found if at > 60)
        assert all(0.95 < ratio < 1.05 for at, ratio in found if at > 150)
        assert all(b[0] > a[0] for a, b in pairwise(found))


class TestAfterAQueue:
    """What the queue showed holds for the requests that waited in it."""

    def test_tokens_that_take_twice_as_long_are_noticed(self) -> None:
        load = wandering(1, LIMIT / 3, 120)
        slow = [
            replace(each, completions=each.completions / 2, decode_tokens=tokens / 2)
            for each in polls(load, tokens=TOKENS)
            if (tokens := each.decode_tokens) is not None
        ]
        known = learning(CurveEstimator(LIMIT), queue(0.0, 36))
        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(TRUTH, rel=0.1)

        for each in slow:
            known = known.after(each)

        now = known.estimate
        assert now is not None
        assert now.capacity == pytest.approx(TRUTH / 2, rel=0.2)

    def test_another_limit_is_another_worker(self) -> None:
        known = learning(CurveEstimator(LIMIT), queue(0.0, 36))
        known = Learning(CurveEstimator(LIMIT / 4), known.state)

        for each in polls(wandering(1, LIMIT / 8, 120), tokens=TOKENS):
            known = known.after(each)

        n = LIMIT / 4
        assert known.estimate is not None
        assert known.estimate.concurrency_limit == n
        assert known.estimate.capacity == pytest.approx(n / service_time(n), rel=0.15)
        assert known.state.saturation.completions == 0

    def test_overload_from_the_first_poll_on_is_a_number(self) -> None:
        """Every interval preempts, so that nothing is learned of the curve."""
        over = [replace(each, preemptions=99.0) for each in queue(0.0, 12)]

        estimate = learn(CurveEstimator(LIMIT), over)

        assert estimate is not None
        assert estimate.capacity == pytest.approx(TRUTH, rel=0.15)
        assert estimate.method == "the rate seen while requests waited"

    def test_the_batch_that_empties_is_no_change(self) -> None:
        """200 run, a queue ends, 20 run: in between the two do not fit together."""
        busy = [
            interval(5.0 * i, 130, running=(200, 200), waiting=(50, 50))
            for i in range(1, 61)
        ]
        emptying = interval(305, 130, running=(200, 20))
        light = [interval(305 + 5.0 * i, 40, running=(20, 20)) for i in range(1, 61)]

        known = learning(CurveEstimator(256.0), [*busy, emptying, *light])

        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(26, rel=0.35)

    def test_requests_that_only_begin_to_run_are_no_full_batch(self) -> None:
        """Long prompts: 60 arrive at once, and none is done for a while."""
        light = polls(wandering(2, LIMIT / 3, 120), tokens=TOKENS)
        filling = interval(
            605,
            1,
            running=(20, LIMIT),
            waiting=(9, 30),
            generation_tokens=100.0,
            decode_tokens=100.0,
            decode_seconds=200.0,
        )
        known = learning(CurveEstimator(LIMIT), light)
        before = known.estimate

        now = known.after(filling).estimate

        assert before is not None
        assert now is not None
        assert now.capacity == pytest.approx(before.capacity, rel=0.1)


class TestTokensOnly:
    def test_alpha_and_the_cost_of_prompts_come_to_an_agreement(self) -> None:
        """Each is told by the other: taken at once they chase each other for ever."""
        work = Work("long-prompt", 0.1, 0.3, 15, 7, tokens)
        estimator = CurveEstimator(work.limit)
        state = last(estimator, map(tokens, work.intervals())).state
        again = estimator.from_json(estimator.to_json(state))

        found = []
        for each in map(tokens, Work("long-prompt", 0.1, 0.3, 5, 8).intervals()):
            again, estimate = estimator.step(again, each)
            if estimate:
                found.append(estimate.capacity / work.capacity)

        assert all(0.5 < b / a < 2 for a, b in pairwise(found))


class TestMissingForAMoment:
    def test_a_page_without_its_tokens_once_costs_nothing(self) -> None:
        found = list(polls(wandering(1, LIMIT / 3, 240), tokens=TOKENS))
        gappy = [
            requests(each) if i % 60 == 59 else each for i, each in enumerate(found)
        ]

        before = learn(CurveEstimator(LIMIT), found)
        after = learn(CurveEstimator(LIMIT), gappy)

        assert before is not None
        assert after is not None
        assert after.capacity == pytest.approx(before.capacity, rel=0.05)

    def test_for_a_minute_and_more_it_is_another_page(self) -> None:
        found = list(polls(wandering(1, LIMIT / 3, 240), tokens=TOKENS))
        bare = [requests(each) if i > 120 else each for i, each in enumerate(found)]

        known = learning(CurveEstimator(LIMIT), bare)

        assert known.state.unit is Unit.REQUEST


class TestObjective:
    def test_the_band_knows_that_n_is_read_off(self) -> None:
        load = wandering(1, LIMIT / 4, 240)
        free = learn(CurveEstimator(LIMIT), polls(load, tokens=TOKENS))
        bound = learn(
            CurveEstimator(LIMIT, service_time(20)), polls(load, tokens=TOKENS)
        )

        assert free is not None
        assert bound is not None
        assert bound.lower is not None
        assert bound.upper is not None
        assert bound.lower < 20 / service_time(20) < bound.upper
        assert bound.upper / bound.lower > 1.2

    def test_one_that_a_request_alone_does_not_meet_is_called_so(self) -> None:
        load = wandering(1, LIMIT / 4, 240)

        estimate = learn(CurveEstimator(LIMIT, ALPHA / 2), polls(load, tokens=TOKENS))

        assert estimate is not None
        assert estimate.concurrency_limit == 1
        assert "shorter than a request alone" in estimate.limited_by
        assert estimate.capacity > 0.1
