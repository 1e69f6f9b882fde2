"""The metric families of a simulated worker, in the order of a vLLM 0.32 page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.simulator.counters import Histogram
from sidecar.simulator.engine import Engine

Labels = dict[str, str]
Sample = tuple[str, Labels, float]
"""Suffix of the family's name, labels, value."""


@dataclass(frozen=True)
class Family:
    """One metric family: its name, type and help as on the page, and its samples."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


_HELP = {
    "num_requests_running": "Number of requests in model execution batches.",
    "num_requests_waiting": "Number of requests waiting to be processed.",
    "engine_sleep_state": "Engine sleep state; awake = 0 means engine is sleeping; "
    "awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; "
    "discard_all = 1 means sleep level 2.",
    "kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage.",
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried "
    "tokens.",
    "prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "num_preemptions": "Cumulative number of preemption from the engine.",
    "prompt_tokens": "Number of prefill tokens processed.",
    "generation_tokens": "Number of generation tokens processed.",
    "request_success": "Count of successfully processed requests.",
    "cache_config_info": "Information of the LLMEngine CacheConfig",
}

_HISTOGRAM_HELP = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of "
    "time_per_output_token_seconds per request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for "
    "request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for "
    "request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for "
    "request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for "
    "request.",
}
"""By family; each is the attribute of `Counters` that has its name."""

_SLEEP_STATES = ("awake", "weights_offloaded", "discard_all")
"""By sleep level."""


def families(engine: Engine, epoch: float) -> Iterator[Family]:
    """Yield every family of an engine.

    Args:
        engine: the worker.
        epoch: Unix time at 0 of the engine's time.
    """
    own = {"engine": "0", "model_name": engine.model_name}
    created = engine.started_at + epoch
    yield Family(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        [("", {}, created)],
    )
    yield _gauge("num_requests_running", [("", own, engine.running)])
    yield _gauge("num_requests_waiting", [("", own, engine.waiting)])
    yield _gauge("engine_sleep_state", _sleep_state(engine, own))
    yield _gauge("kv_cache_usage_perc", [("", own, engine.kv_usage)])
    counters = engine.counters
    for name, value in (
        # vLLM looks every prompt up once, so it queries as many tokens as it prefills.
        ("prefix_cache_queries", counters.prompt_tokens),
        ("prefix_cache_hits", counters.prefix_cache_hits),
        ("num_preemptions", counters.num_preemptions),
        ("prompt_tokens", counters.prompt_tokens),
        ("generation_tokens", counters.generation_tokens),
    ):
        yield from _counter(name, [("", own, value)], created)
    success: list[Sample] = [
        ("", {**own, "finished_reason": reason}, count)
        for reason, count in counters.request_success.items()
    ]
    yield from _counter("request_success", success, created)
    for name in _HISTOGRAM_HELP:
        yield from _histogram(name, getattr(counters, name), own, created)
    yield _gauge("cache_config_info", [("", _cache_config(engine), 1.0)])


def _gauge(name: str, samples: list[Sample]) -> Family:
    return Family(f"vllm:{name}", "gauge", _HELP[name], samples)


def _counter(name: str, samples: list[Sample], created: float) -> Iterator[Family]:
    births: list[Sample] = [("", labels, created) for _, labels, _ in samples]
    yield Family(f"vllm:{name}_total", "counter", _HELP[name], samples)
    yield Family(f"vllm:{name}_created", "gauge", _HELP[name], births)


def _histogram(
    name: str, histogram: Histogram, own: Labels, created: float
) -> Iterator[Family]:
    text = _HISTOGRAM_HELP[name]
    samples: list[Sample] = [
        ("_bucket", {**own, "le": "+Inf"}, histogram.count),
        ("_count", own, histogram.count),
        ("_sum", own, histogram.sum),
    ]
    yield Family(f"vllm:{name}", "histogram", text, samples)
    yield Family(f"vllm:{name}_created", "gauge", text, [("", own, created)])


def _sleep_state(engine: Engine, own: Labels) -> list[Sample]:
    return [
        ("", {**own, "sleep_state": state}, float(engine.sleep_level == level))
        for level, state in enumerate(_SLEEP_STATES)
    ]


def _cache_config(engine: Engine) -> Labels:
    shape = engine.shape
    tokens = shape.kv_blocks * shape.block_size
    return {
        "block_size": str(shape.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(shape.prefix_hit_rate > 0),
        "engine": "0",
        "gpu_memory_utilization": "0.92",
        "kv_cache_max_concurrency": str(tokens / shape.max_model_len),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(shape.kv_blocks),
    }
