"""SGLang. Its counter includes failed requests and has no finish reason."""

from __future__ import annotations

from sidecar.engines.base import GENERATION_TOKENS, PROMPT_TOKENS, Engine

ENGINE = Engine(
    name="sglang",
    prefixes=("sglang:", "sglang_"),
    finished=("num_requests_total",),
    running=("num_running_reqs",),
    waiting=("num_queue_reqs",),
    kv_usage=("token_usage",),
    counters={
        GENERATION_TOKENS: ("generation_tokens_total",),
        PROMPT_TOKENS: ("prompt_tokens_total",),
    },
    # Every rank of one scheduler repeats its gauges.
    copies=frozenset({"pid", "tp_rank", "pp_rank", "moe_ep_rank"}),
)
