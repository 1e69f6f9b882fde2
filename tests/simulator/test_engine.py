from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.simulator import Engine

from .tiny import tiny_engine

PREFILL_10 = 1.0 + 0.1 + 10 * 0.01
"""One step of a request alone that computes a prompt of 10."""


class TestOneRequest:
    def test_takes_one_prefill_step_and_a_step_for_each_further_token(self) -> None:
        engine = tiny_engine()
        engine.submit(5.0, prompt_tokens=10, output_tokens=3)

        (request,) = engine.run(100.0)

        assert request.first_token_at == pytest.approx(5.0 + PREFILL_10)
        decode = (1.1 + 10 * 0.001) + (1.1 + 11 * 0.001)
        assert request.last_token_at == pytest.approx(5.0 + PREFILL_10 + decode)

    def test_is_counted_as_vllm_counts_it(self) -> None:
        engine = tiny_engine()
        engine.submit(5.0, prompt_tokens=10, output_tokens=3)
        engine.advance(100.0)
        counters = engine.counters

        assert counters.request_success["stop"] == counters.completions == 1
        assert (counters.prompt_tokens, counters.generation_tokens) == (10, 3)
        assert counters.iteration_tokens_total.count == 3
        assert counters.iteration_tokens_total.sum == 10 + 3
        assert counters.time_to_first_token_seconds.sum == pytest.approx(PREFILL_10)
        assert counters.inter_token_latency_seconds.count == 2
        assert counters.inter_token_latency_seconds.sum == pytest.approx(2.221)
        assert counters.request_time_per_output_token_seconds.sum == pytest.approx(
            2.221 / 2
        )
        assert counters.request_queue_time_seconds.sum == 0.0
        assert counters.request_inference_time_seconds.sum == pytest.approx(
            PREFILL_10 + 2.221
        )

    def test_of_one_token_is_done_with_its_prefill(self) -> None:
        engine = tiny_engine()
        engine.submit(0.0, prompt_tokens=10, output_tokens=1)
        engine.advance(PREFILL_10 + 1e-9)

        assert engine.counters.completions == 1
        assert engine.counters.inter_token_latency_seconds.count == 0
        assert engine.counters.request_time_per_output_token_seconds.count == 0
        assert engine.kv_usage == 0.0

    def test_too_long_for_the_model_is_cut(self) -> None:
        engine = tiny_engine()
        engine.submit(0.0, prompt_tokens=390, output_tokens=50)
        engine.advance(1000.0)

        assert engine.counters.request_success["length"] == 1
        assert engine.counters.generation_tokens == 10

    def test_can_end_for_another_reason(self) -> None:
        engine = tiny_engine()
        engine.submit(0.0, 10, 3, reason="abort")
        engine.advance(100.0)

        assert engine.counters.request_success["abort"] == 1

    def test_reuses_the_cached_part_of_its_prompt(self) -> None:
        engine = tiny_engine(prefix_hit_rate=0.5)
        engine.submit(0.0, prompt_tokens=10, output_tokens=1)
        engine.advance(100.0)

        assert engine.counters.prefix_cache_hits == 5
        assert engine.counters.e2e_request_latency_seconds.sum == pytest.approx(
            1.1 + 5 * 0.01
        )

    @pytest.mark.parametrize(("prompt", "output"), [(0, 1), (1, 0)])
    def test_must_have_a_prompt_and_an_answer(self, prompt: int, output: int) -> None:
        with pytest.raises(ValueError, match="1 or more"):
            tiny_engine().submit(0.0, prompt, output)

    def test_cannot_arrive_in_the_past(self) -> None:
        engine = tiny_engine()
        engine.advance(10.0)
        with pytest.raises(ValueError, match="cannot arrive at 9"):
            engine.submit(9.0, 1, 1)


class TestBatch:
    def test_shares_steps(self) -> None:
        engine = tiny_engine()
        engine.submit(0.0, prompt_tokens=10, output_tokens=3)
        engine.submit(0.5, prompt_tokens=20, output_tokens=2)

        first, second = engine.run(100.0)

        prefill_second = 1.2 + 10 * 0.001 + 20 * 0.01
        decode_both = 1.2 + (11 + 20) * 0.001
        assert second.scheduled_at == pytest.approx(PREFILL_10)
        assert second.first_token_at == pytest.approx(PREFILL_10 + prefill_second)
        ends_at = PREFILL_10 + prefill_second + decode_both
        assert first.last_token_at == pytest.approx(ends_at)
        assert second.last_token_at == pytest.approx(ends_at)

    def test_cuts_prompts_into_what_decodes_leave_of_the_budget(self) -> None:
        engine = tiny_engine(max_batched_tokens=4)
        engine.submit(0.0, prompt_tokens=1, output_tokens=5)
        engine.submit(0.0, prompt_tokens=8, output_tokens=1)

        second, first = engine.run(100.0)

        assert first.output_tokens == 5
        # First step 1 + 3 tokens of prompts, then 1 decode and 3 + 2 of the prompt.
        chunks = (1.2 + 0.04) + (1.2 + 0.001 + 0.03) + (1.2 + 0.002 + 0.02)
        assert second.last_token_at == pytest.approx(chunks)

    def test_gauges_are_those_between_steps(self) -> None:
        engine = tiny_engine(max_num_seqs=1)
        for _ in range(3):
            engine.submit(0.0, prompt_tokens=10, output_tokens=1)

        engine.advance(PREFILL_10 - 0.01)
        assert (engine.running, engine.waiting) == (0, 0)
        engine.advance(PREFILL_10 + 0.01)
        assert (engine.running, engine.waiting) == (0, 2)
        engine.advance(3 * PREFILL_10 + 0.01)
        assert (engine.running, engine.waiting) == (0, 0)
        assert engine.counters.request_queue_time_seconds.sum == pytest.approx(
            (1 + 2) * PREFILL_10
        )

    def test_mixture_of_experts_is_concave(self) -> None:
        shape = tiny_engine(moe_experts_s=2.0, moe_active_fraction=0.25).shape
        seconds = [
            shape.step_seconds(decoding=n, prefilling=0, live_tokens=0, prompt_tokens=0)
            for n in (0, 1, 2)
        ]

        assert seconds[1] == pytest.approx(1.0 + 0.1 + 2.0 * 0.25)
        assert seconds[2] - seconds[1] < seconds[1] - seconds[0]


class TestMemory:
    def test_usage_is_blocks_over_all_but_the_null_block(self) -> None:
        engine = tiny_engine()
        engine.submit(0.0, prompt_tokens=9, output_tokens=10)
        engine.advance(1.5)

        assert engine.kv_usage == 3 / 100

    def test_preempts_the_newest_and_computes_it_again(self) -> None:
        # 4 usable blocks of 4. Prompts of 6 hold 2 each, and both want a third at 8.
        engine = tiny_engine(kv_blocks=5, max_model_len=16)
        engine.submit(0.0, prompt_tokens=6, output_tokens=6)
        engine.submit(0.0, prompt_tokens=6, output_tokens=6)

        first, second = engine.run(100.0)

        prefill = 1.2 + 12 * 0.01
        decodes = (1.2 + 12 * 0.001) + (1.2 + 14 * 0.001)
        alone = sum(1.1 + tokens * 0.001 for tokens in (8, 9, 10))
        assert first.last_token_at == pytest.approx(prefill + decodes + alone)
        # Three of its tokens were out: 9 tokens to compute give the fourth.
        recompute = 1.1 + 9 * 0.01
        rest = (1.1 + 9 * 0.001) + (1.1 + 10 * 0.001)
        assert second.last_token_at == pytest.approx(
            first.last_token_at + recompute + rest
        )
        assert engine.counters.num_preemptions == 1
        assert engine.counters.generation_tokens == 12
        assert engine.counters.prompt_tokens == 12
        gaps = first.last_token_at + second.last_token_at - 2 * prefill
        assert engine.counters.inter_token_latency_seconds.count == 10
        assert engine.counters.inter_token_latency_seconds.sum == pytest.approx(gaps)

    def test_a_prompt_waits_for_room_for_all_of_it(self) -> None:
        engine = tiny_engine(kv_blocks=5, max_model_len=16)
        engine.submit(0.0, prompt_tokens=12, output_tokens=2)
        engine.submit(0.0, prompt_tokens=8, output_tokens=1)
        engine.advance(1.3)

        assert (engine.running, engine.waiting) == (1, 1)
        assert engine.kv_usage == 3 / 4


class TestTime:
    @settings(max_examples=40, deadline=None)
    @given(
        arrivals=st.lists(
            st.tuples(st.floats(0, 30), st.integers(1, 12), st.integers(1, 12)),
            min_size=1,
            max_size=12,
        ),
        cuts=st.lists(st.floats(0, 60), max_size=10),
    )
    def test_does_not_depend_on_how_it_is_cut(
        self, arrivals: list[tuple[float, int, int]], cuts: list[float]
    ) -> None:
        whole, cut = (tiny_engine(kv_blocks=8, max_model_len=28) for _ in range(2))
        for at, prompt, output in arrivals:
            whole.submit(at, prompt, output)
            cut.submit(at, prompt, output)
        whole.advance(300.0)
        for until in [*sorted(cuts), 300.0]:
            cut.advance(until)

        assert cut.counters == whole.counters
        assert whole.counters.completions == len(arrivals)
        assert whole.counters.generation_tokens == sum(o for _, _, o in arrivals)
        assert (whole.running, whole.waiting, whole.kv_usage) == (0, 0, 0.0)

    def test_little_holds_to_the_last_digit(self) -> None:
        engine = tiny_engine()
        for at in range(20):
            engine.submit(float(at), prompt_tokens=5 + at, output_tokens=3 + at % 7)
        engine.advance(1000.0)

        assert engine.counters.running_seconds == pytest.approx(
            engine.counters.request_inference_time_seconds.sum
        )


def busy_engine() -> Engine:
    """Return an engine 1.25 s into a request of 3.421 s, one step done."""
    engine = tiny_engine()
    engine.submit(0.0, prompt_tokens=10, output_tokens=3)
    engine.advance(1.25)
    return engine


class TestFailures:
    def test_restart_loses_counts_and_requests(self) -> None:
        engine = busy_engine()
        engine.submit(2.0, 10, 1)
        engine.submit(4.0, 10, 1)
        engine.restart(2.5)

        assert engine.started_at == 2.5
        assert (engine.running, engine.open_requests) == (0, 1)
        assert engine.counters.generation_tokens == 0
        engine.advance(10.0)
        assert engine.counters.completions == 1

    def test_hang_freezes_everything_and_resume_goes_on(self) -> None:
        engine = busy_engine()
        engine.hang(2.0)
        engine.advance(50.0)

        assert engine.hung
        assert (engine.running, engine.counters.generation_tokens) == (1, 1)
        engine.resume(52.0)
        (request,) = engine.run(100.0)
        assert request.last_token_at == pytest.approx(3.421 + 50.0)
        assert engine.counters.inter_token_latency_seconds.sum == pytest.approx(
            2.221 + 50.0
        )

    def test_requests_that_come_while_it_hangs_start_after_it(self) -> None:
        engine = tiny_engine()
        engine.hang(1.0)
        engine.submit(2.0, 10, 1)
        engine.resume(5.0)
        engine.resume(6.0)

        (request,) = engine.run(100.0)
        assert request.scheduled_at == 5.0

    def test_sleep_is_not_a_hang(self) -> None:
        engine = busy_engine()
        engine.sleep(2.0, level=2)

        assert (engine.sleep_level, engine.hung) == (2, False)
        engine.resume(3.0)
        assert engine.sleep_level == 0
        engine.advance(100.0)
        assert engine.counters.completions == 1
