"""The cumulative numbers of a worker, as vLLM keeps them from start to stop."""

from __future__ import annotations

from dataclasses import dataclass, field

FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
"""Every value of the label `finished_reason` in vLLM 0.32, in the page's order."""


@dataclass
class Histogram:
    """The count and the sum of a Prometheus histogram, without its buckets."""

    count: int = 0
    sum: float = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Add `times` observations of `value`."""
        self.count += times
        self.sum += value * times


@dataclass
class Counters:
    """What a worker has done since its process started.

    Tokens are counts and histograms sum seconds unless named otherwise. Requests are
    in the request histograms from the moment they finish, tokens at once.
    """

    request_success: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(FINISHED_REASONS, 0)
    )
    generation_tokens: int = 0
    prompt_tokens: int = 0
    prefix_cache_hits: int = 0
    num_preemptions: int = 0
    iteration_tokens_total: Histogram = field(default_factory=Histogram)
    request_prompt_tokens: Histogram = field(default_factory=Histogram)
    request_generation_tokens: Histogram = field(default_factory=Histogram)
    time_to_first_token_seconds: Histogram = field(default_factory=Histogram)
    inter_token_latency_seconds: Histogram = field(default_factory=Histogram)
    request_time_per_output_token_seconds: Histogram = field(default_factory=Histogram)
    e2e_request_latency_seconds: Histogram = field(default_factory=Histogram)
    request_queue_time_seconds: Histogram = field(default_factory=Histogram)
    request_inference_time_seconds: Histogram = field(default_factory=Histogram)
    request_prefill_time_seconds: Histogram = field(default_factory=Histogram)
    request_decode_time_seconds: Histogram = field(default_factory=Histogram)
    running_seconds: float = 0.0
    """True area under the running requests (requests · s); not on the page."""

    @property
    def completions(self) -> int:
        """Requests finished, whatever the reason."""
        return sum(self.request_success.values())
