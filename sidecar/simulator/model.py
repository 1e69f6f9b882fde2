"""What is simulated: a worker's speed and memory (`Shape`) and its requests (`Mix`)."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The speed and memory of one model on one kind of worker.

    One engine step takes, in seconds,

        step_fixed_s
        + step_per_sequence_s · sequences in the step
        + step_per_kv_token_s · KV tokens of the decoding sequences
        + prefill_per_token_s · prompt tokens computed in the step
        + moe_experts_s · (1 - (1 - moe_active_fraction)^tokens in the step)

    The first four are the roofline of a dense model: weights read once, then work per
    sequence, per token of cache read and per prompt token. The last is the expected
    part of a mixture of experts whose weights are touched when each token picks
    `moe_active_fraction` of them: concave in the batch, 0 for a dense model.
    """

    name: str
    step_fixed_s: float
    step_per_sequence_s: float
    step_per_kv_token_s: float
    prefill_per_token_s: float
    max_num_seqs: int
    kv_blocks: int
    block_size: int = 16
    max_batched_tokens: int = 8192
    max_model_len: int = 8192
    moe_experts_s: float = 0.0
    moe_active_fraction: float = 0.0
    prefix_hit_rate: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a worker that vLLM would not start, or that could never serve."""
        if self.max_batched_tokens < self.max_num_seqs:
            msg = (
                f"max_batched_tokens {self.max_batched_tokens} is below "
                f"max_num_seqs {self.max_num_seqs}"
            )
            raise ValueError(msg)
        if self.max_model_len > self.usable_blocks * self.block_size:
            msg = (
                f"one request of max_model_len {self.max_model_len} tokens does not "
                f"fit {self.usable_blocks} blocks of {self.block_size}"
            )
            raise ValueError(msg)

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold: vLLM keeps one back as its null block."""
        return self.kv_blocks - 1

    def step_seconds(
        self, *, decoding: int, prefilling: int, live_tokens: int, prompt_tokens: int
    ) -> float:
        """Return the length of one step in seconds (formula: class docstring).

        Args:
            decoding: sequences that each produce one token.
            prefilling: sequences that compute a chunk of their prompt.
            live_tokens: KV tokens that the decoding sequences hold at its start.
            prompt_tokens: prompt tokens computed, over all chunks.
        """
        seconds = (
            self.step_fixed_s
            + self.step_per_sequence_s * (decoding + prefilling)
            + self.step_per_kv_token_s * live_tokens
            + self.prefill_per_token_s * prompt_tokens
        )
        if self.moe_experts_s:
            untouched = (1.0 - self.moe_active_fraction) ** (decoding + prompt_tokens)
            seconds += self.moe_experts_s * (1.0 - untouched)
        return seconds


@dataclass(frozen=True)
class Mix:
    """The lengths of requests: independent log-normals, given by mean and cv.

    cv is the coefficient of variation, standard deviation over mean; 0 makes every
    request alike.
    """

    prompt_tokens: float
    output_tokens: float
    prompt_cv: float = 0.5
    output_cv: float = 0.5

    def draw(self, rng: random.Random) -> tuple[int, int]:
        """Draw the prompt and the output tokens of one request, each 1 or more."""
        return (
            _draw_length(rng, self.prompt_tokens, self.prompt_cv),
            _draw_length(rng, self.output_tokens, self.output_cv),
        )


def _draw_length(rng: random.Random, mean: float, cv: float) -> int:
    """Draw a log-normal length: sigma² = ln(1 + cv²), mu = ln(mean) - sigma²/2."""
    variance = math.log1p(cv * cv)
    mu = math.log(mean) - variance / 2
    return max(1, round(rng.lognormvariate(mu, math.sqrt(variance))))
