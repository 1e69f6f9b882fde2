"""vLLM's own page, under the prefixes that deployments give it."""

from __future__ import annotations

from sidecar.engines.base import (
    CACHED_TOKENS,
    DECODE_SECONDS,
    DECODE_TOKENS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFILL_SECONDS,
    PROMPT_TOKENS,
    Engine,
)

ENGINE = Engine(
    name="vllm",
    # Ray writes a colon or an underscore, by release; OpenMetrics an underscore.
    prefixes=("vllm:", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "vllm_"),
    finished=("request_success_total", "request_success"),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    # The older name went with release 0.11; some releases print both.
    kv_usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    counters={
        GENERATION_TOKENS: ("generation_tokens_total", "generation_tokens"),
        PROMPT_TOKENS: ("prompt_tokens_total", "prompt_tokens"),
        # Of the prompt tokens, those that a cache saved computing.
        CACHED_TOKENS: ("prompt_tokens_cached_total", "prefix_cache_hits_total"),
        PREEMPTIONS: ("num_preemptions_total", "num_preemptions"),
        # The older name means the same: the time from one token to the next.
        DECODE_SECONDS: (
            "inter_token_latency_seconds_sum",
            "time_per_output_token_seconds_sum",
        ),
        DECODE_TOKENS: (
            "inter_token_latency_seconds_count",
            "time_per_output_token_seconds_count",
        ),
        PREFILL_SECONDS: ("request_prefill_time_seconds_sum",),
    },
    sleep_state="engine_sleep_state",
    cache_config="cache_config_info",
)
