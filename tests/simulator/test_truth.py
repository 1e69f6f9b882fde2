from __future__ import annotations

import random

import pytest

from sidecar.simulator import (
    PRESETS,
    Engine,
    Mix,
    OpenLoop,
    Preset,
    drive,
    measure,
    steady,
    true_capacity,
    true_limit,
)

from .tiny import tiny_engine


def test_is_exact_where_steps_cost_the_same() -> None:
    shape = tiny_engine(
        step_per_sequence_s=0.0, step_per_kv_token_s=0.0, prefill_per_token_s=0.0
    ).shape
    mix = Mix(4, 3, prompt_cv=0, output_cv=0)

    # 4 slots, 3 steps of 1 s.
    assert true_capacity(shape, mix) == pytest.approx(4 / 3, rel=1e-3)
    assert true_limit(shape, mix) == pytest.approx(4.0, rel=1e-3)


def test_is_what_an_overloaded_worker_does() -> None:
    demo = PRESETS["demo"]
    capacity = true_capacity(demo.shape, demo.mix)
    engine = Engine(demo.shape, "overloaded")
    load = OpenLoop(demo.mix, random.Random(9), steady(40.0), peak=40.0)
    load.feed(engine, 30.0)
    before = engine.counters.completions
    load.feed(engine, 630.0)

    assert engine.waiting > 1000
    rate = (engine.counters.completions - before) / 600.0
    assert rate == pytest.approx(capacity, rel=0.02)
    assert measure(demo.shape, demo.mix) is measure(demo.shape, demo.mix)


def test_a_worker_below_capacity_keeps_up_and_above_does_not() -> None:
    demo = PRESETS["demo"]
    capacity = true_capacity(demo.shape, demo.mix)
    waiting = []
    for load in (0.9, 1.1):
        engine = Engine(demo.shape, "near")
        rate = load * capacity
        OpenLoop(demo.mix, random.Random(10), steady(rate), peak=rate).feed(
            engine, 600.0
        )
        waiting.append(engine.waiting)

    assert waiting[0] < 50
    assert waiting[1] > 500


def test_a_worker_short_of_memory_is_limited_by_it() -> None:
    small = PRESETS["small-gpu"]
    engine = Engine(small.shape, "small")
    load = OpenLoop(small.mix, random.Random(11), steady(10.0), peak=10.0)
    usage = []
    for _ in drive(engine, load, 300.0):
        usage.append(engine.kv_usage)
        assert engine.running < small.shape.max_num_seqs / 2

    assert max(usage) <= 1.0
    assert max(usage) > 0.95
    assert engine.waiting > 100
    assert engine.counters.num_preemptions > 0


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_serves(preset: Preset) -> None:
    engine = Engine(preset.shape, preset.shape.name)
    OpenLoop(preset.mix, random.Random(12), steady(1.0), peak=1.0).feed(engine, 120.0)

    assert engine.counters.completions > 60
    assert engine.waiting == 0
