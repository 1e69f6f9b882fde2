"""Named workers, each with the requests that it is made for.

The numbers follow the roofline: weights over memory bandwidth for a step's fixed part,
KV bytes over bandwidth for a live token, 2 · parameters over compute for a prompt
token, and a host cost per sequence. They are of the right size, not measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.simulator.model import Mix, Shape


@dataclass(frozen=True)
class Preset:
    """A worker and its usual requests."""

    shape: Shape
    mix: Mix


_PRESETS = (
    # Requests of about 1 s alone and 1.7 s at saturation: a live demo converges fast.
    Preset(
        Shape(
            name="demo",
            step_fixed_s=12e-3,
            step_per_sequence_s=0.25e-3,
            step_per_kv_token_s=0.1e-6,
            prefill_per_token_s=30e-6,
            max_num_seqs=32,
            kv_blocks=2048,
            max_batched_tokens=2048,
            max_model_len=4096,
        ),
        Mix(prompt_tokens=180, output_tokens=64, prompt_cv=0.5, output_cv=0.4),
    ),
    # 3B in 16 bit on one 24 GB card: little cache left, far below the sequence limit.
    Preset(
        Shape(
            name="small-gpu",
            step_fixed_s=22e-3,
            step_per_sequence_s=0.15e-3,
            step_per_kv_token_s=0.4e-6,
            prefill_per_token_s=100e-6,
            max_num_seqs=256,
            kv_blocks=1500,
            max_batched_tokens=2048,
            max_model_len=4096,
        ),
        Mix(prompt_tokens=400, output_tokens=200, prompt_cv=0.6, output_cv=0.6),
    ),
    # 8B dense on one 80 GB card.
    Preset(
        Shape(
            name="dense-8b",
            step_fixed_s=7e-3,
            step_per_sequence_s=0.03e-3,
            step_per_kv_token_s=0.04e-6,
            prefill_per_token_s=32e-6,
            max_num_seqs=256,
            kv_blocks=24_000,
        ),
        Mix(prompt_tokens=512, output_tokens=256, prompt_cv=0.6, output_cv=0.6),
    ),
    # 70B dense over 8 cards, conversations of which a third is in the prefix cache.
    Preset(
        Shape(
            name="dense-70b",
            step_fixed_s=17e-3,
            step_per_sequence_s=0.06e-3,
            step_per_kv_token_s=0.016e-6,
            prefill_per_token_s=44e-6,
            max_num_seqs=256,
            kv_blocks=75_000,
            prefix_hit_rate=0.33,
        ),
        Mix(prompt_tokens=800, output_tokens=300, prompt_cv=0.7, output_cv=0.6),
    ),
    # Mixture of experts, 8 of 128 active: few sequences touch few of the experts.
    Preset(
        Shape(
            name="moe",
            step_fixed_s=6e-3,
            step_per_sequence_s=0.05e-3,
            step_per_kv_token_s=0.02e-6,
            prefill_per_token_s=20e-6,
            max_num_seqs=128,
            kv_blocks=40_000,
            moe_experts_s=16e-3,
            moe_active_fraction=1 / 16,
        ),
        Mix(prompt_tokens=400, output_tokens=250, prompt_cv=0.6, output_cv=0.6),
    ),
    # Documents in, a few sentences out: prompts take most of the time.
    Preset(
        Shape(
            name="long-prompt",
            step_fixed_s=7e-3,
            step_per_sequence_s=0.03e-3,
            step_per_kv_token_s=0.04e-6,
            prefill_per_token_s=32e-6,
            max_num_seqs=64,
            kv_blocks=40_000,
            max_model_len=32_768,
        ),
        Mix(prompt_tokens=6000, output_tokens=100, prompt_cv=0.4, output_cv=0.5),
    ),
    # 14B dense on one 80 GB card, long answers: the cache fills before the slots do.
    Preset(
        Shape(
            name="long-answers",
            step_fixed_s=13e-3,
            step_per_sequence_s=0.03e-3,
            step_per_kv_token_s=0.07e-6,
            prefill_per_token_s=66e-6,
            max_num_seqs=256,
            kv_blocks=12_000,
        ),
        Mix(prompt_tokens=300, output_tokens=1500, prompt_cv=0.6, output_cv=0.7),
    ),
    # One line in, one line out: dozens of requests a second.
    Preset(
        Shape(
            name="short-chat",
            step_fixed_s=7e-3,
            step_per_sequence_s=0.06e-3,
            step_per_kv_token_s=0.04e-6,
            prefill_per_token_s=32e-6,
            max_num_seqs=128,
            kv_blocks=24_000,
        ),
        Mix(prompt_tokens=60, output_tokens=80, prompt_cv=0.5, output_cv=0.6),
    ),
)

PRESETS: dict[str, Preset] = {preset.shape.name: preset for preset in _PRESETS}
"""Every preset by the name of its shape."""
