"""A worker slow and small enough to work out by hand."""

from __future__ import annotations

from typing import Any

from sidecar.simulator import Engine, Shape

FIXED, PER_SEQUENCE, PER_KV_TOKEN, PER_PROMPT_TOKEN = 1.0, 0.1, 0.001, 0.01


def tiny_engine(**changes: Any) -> Engine:
    """Return an idle engine with steps of about a second; `changes` to its shape."""
    values: dict[str, Any] = {
        "name": "tiny",
        "step_fixed_s": FIXED,
        "step_per_sequence_s": PER_SEQUENCE,
        "step_per_kv_token_s": PER_KV_TOKEN,
        "prefill_per_token_s": PER_PROMPT_TOKEN,
        "max_num_seqs": 4,
        "kv_blocks": 101,
        "block_size": 4,
        "max_batched_tokens": 64,
        "max_model_len": 400,
    }
    return Engine(Shape(**{**values, **changes}), "tiny/model")
