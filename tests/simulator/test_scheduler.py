"""The scheduler's shortcuts against a count of every token of every request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.simulator.scheduler import Request, Scheduler

from .tiny import tiny_engine


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 14), st.integers(1, 14)), min_size=1, max_size=15
    ),
    budget=st.integers(4, 20),
    kv_blocks=st.integers(8, 20),
)
def test_holds_the_blocks_of_its_tokens_and_never_more_than_there_are(
    lengths: list[tuple[int, int]], budget: int, kv_blocks: int
) -> None:
    shape = tiny_engine(
        kv_blocks=kv_blocks, max_model_len=28, max_batched_tokens=budget
    ).shape
    scheduler = Scheduler(shape)
    scheduler.waiting.extend(Request(0.0, *length) for length in lengths)
    tokens: dict[Request, int] = {}
    left = 0
    while left < len(lengths):
        batch = scheduler.begin(0.0)
        assert scheduler.used_blocks <= shape.usable_blocks
        assert len(scheduler.running) <= shape.max_num_seqs
        assert batch.decoding + batch.prompt_tokens <= budget
        in_prefill = [request for request, _ in batch.prefills]
        decoding = [r for r in scheduler.running if r not in in_prefill]
        assert batch.decoding == len(decoding)
        assert batch.live_tokens == sum(tokens[request] for request in decoding)

        _, done = scheduler.finish(batch)

        tokens.update((request, request.prefill_tokens) for request in in_prefill)
        tokens.update((request, tokens[request] + 1) for request in decoding)
        assert scheduler.used_blocks == sum(
            -(-tokens[request] // shape.block_size) for request in scheduler.running
        )
        assert all(request.generated == request.output_tokens for request in done)
        left += len(done)
    assert not scheduler.running
    assert not scheduler.waiting


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"max_batched_tokens": 3}, "max_batched_tokens 3 is below max_num_seqs 4"),
        ({"kv_blocks": 100}, "max_model_len 400 tokens does not fit 99 blocks of 4"),
    ],
)
def test_a_shape_that_cannot_serve_is_refused(
    changes: dict[str, int], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        tiny_engine(**changes)
