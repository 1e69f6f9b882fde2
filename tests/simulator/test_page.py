from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from sidecar.simulator import (
    FINISHED_REASONS,
    PRESETS,
    ClosedLoop,
    Engine,
    Mix,
    Shape,
    render,
)
from sidecar.simulator.page import format_float

from .tiny import tiny_engine

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
OWN = {"engine": "0", "model_name": "tiny/model"}


def parse(page: str) -> Samples:
    """Return the samples by name and labels, as prometheus_client reads them."""
    samples: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({**OWN, **labels}.items())


@pytest.fixture
def engine() -> Engine:
    """Return an engine that has served, and serves with requests waiting."""
    engine = tiny_engine(kv_blocks=12, max_model_len=44, prefix_hit_rate=0.3)
    ClosedLoop(Mix(8, 8), random.Random(1), clients=9).feed(engine, 500.0)
    return engine


def test_agrees_with_the_engine(engine: Engine) -> None:
    samples, counters = parse(render(engine)), engine.counters

    assert counters.num_preemptions > 0
    assert engine.waiting > 0
    for name, value in {
        "vllm:num_requests_running": engine.running,
        "vllm:num_requests_waiting": engine.waiting,
        "vllm:kv_cache_usage_perc": engine.kv_usage,
        "vllm:num_preemptions_total": counters.num_preemptions,
        "vllm:prompt_tokens_total": counters.prompt_tokens,
        "vllm:generation_tokens_total": counters.generation_tokens,
        "vllm:prefix_cache_hits_total": counters.prefix_cache_hits,
    }.items():
        assert samples[key(name)] == value
    for reason in FINISHED_REASONS:
        success = samples[key("vllm:request_success_total", finished_reason=reason)]
        assert success == counters.request_success[reason]


@pytest.mark.parametrize(
    "name",
    [
        "request_prompt_tokens",
        "request_generation_tokens",
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_inference_time_seconds",
    ],
)
def test_histograms_have_sum_count_and_last_bucket(engine: Engine, name: str) -> None:
    samples, histogram = parse(render(engine)), getattr(engine.counters, name)

    assert histogram.count > 0
    assert samples[key(f"vllm:{name}_sum")] == histogram.sum
    assert samples[key(f"vllm:{name}_count")] == histogram.count
    assert samples[key(f"vllm:{name}_bucket", le="+Inf")] == histogram.count


def test_is_written_as_vllm_writes_it() -> None:
    page = render(tiny_engine(), epoch=1_796_070_768.65)

    assert page.startswith(
        "# HELP process_start_time_seconds "
        "Start time of the process since unix epoch in seconds.\n"
        "# TYPE process_start_time_seconds gauge\n"
        "process_start_time_seconds 1.79607076865e+09\n"
        "# HELP vllm:num_requests_running "
        "Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="tiny/model"} 0.0\n'
    )
    assert (
        "# HELP vllm:request_success_total "
        "Count of successfully processed requests.\n"
        "# TYPE vllm:request_success_total counter\n"
        'vllm:request_success_total{engine="0",finished_reason="stop",'
        'model_name="tiny/model"} 0.0\n'
    ) in page
    assert page.endswith("} 1.0\n")


def test_says_what_the_cache_holds() -> None:
    (labels,) = (
        dict(labels)
        for name, labels in parse(render(tiny_engine()))
        if name == "vllm:cache_config_info"
    )

    assert labels["block_size"] == "4"
    assert labels["num_gpu_blocks"] == "101"
    assert labels["kv_cache_size_tokens"] == "404"
    assert labels["kv_cache_max_concurrency"] == "1.01"


@pytest.mark.parametrize(
    ("level", "state"), [(0, "awake"), (1, "weights_offloaded"), (2, "discard_all")]
)
def test_says_whether_it_sleeps(level: int, state: str) -> None:
    engine = tiny_engine()
    if level:
        engine.sleep(1.0, level)
    samples = parse(render(engine))

    assert samples[key("vllm:engine_sleep_state", sleep_state=state)] == 1.0
    assert sum(v for (n, _), v in samples.items() if "sleep_state" in n) == 1.0


def test_gives_only_the_names_asked_for(engine: Engine) -> None:
    names = {
        "vllm:request_success_total",
        "vllm:num_requests_running",
        "vllm:request_inference_time_seconds_sum",
        "vllm:no_such_thing",
    }
    page = render(engine, names)

    assert {name for name, _ in parse(page)} == names - {"vllm:no_such_thing"}
    assert page.count("# TYPE") == 3
    assert all(line in render(engine) for line in page.splitlines())


def test_escapes_the_model_name() -> None:
    name = 'a"b\\c\nd,e}'
    engine = Engine(tiny_engine().shape, name)

    models = {dict(labels).get("model_name") for _, labels in parse(render(engine))}
    assert models == {None, name}


def test_fresh_page_has_every_family() -> None:
    shape: Shape = PRESETS["demo"].shape
    fresh, used = Engine(shape, "demo"), Engine(shape, "demo")
    ClosedLoop(PRESETS["demo"].mix, random.Random(1), clients=9).feed(used, 20.0)

    assert parse(render(fresh)).keys() == parse(render(used)).keys()


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**52))
def test_floats_are_prometheus_clients(value: float) -> None:
    assert format_float(value) == floatToGoString(value)  # type: ignore[no-untyped-call]
