from __future__ import annotations

import math
import random
import statistics

import pytest

from sidecar.simulator import (
    PRESETS,
    ClosedLoop,
    Engine,
    Mix,
    OpenLoop,
    drive,
    steady,
    wave,
)

from .tiny import tiny_engine

DEMO = PRESETS["demo"]


class Recorder(Engine):
    """An engine that never runs and remembers when requests came."""

    def __init__(self) -> None:
        super().__init__(DEMO.shape, "recorder")
        self.hang(0.0)
        self.times: list[float] = []

    def submit(
        self, at: float, prompt_tokens: int, output_tokens: int, reason: str = "stop"
    ) -> None:
        self.times.append(at)
        super().submit(at, prompt_tokens, output_tokens, reason)


class TestMix:
    def test_has_the_mean_and_the_spread_asked_for(self) -> None:
        rng = random.Random(1)
        mix = Mix(500, 200, prompt_cv=0.6, output_cv=0.3)
        prompts, outputs = zip(*(mix.draw(rng) for _ in range(20_000)), strict=True)

        assert statistics.fmean(prompts) == pytest.approx(500, rel=0.02)
        assert statistics.fmean(outputs) == pytest.approx(200, rel=0.02)
        assert statistics.stdev(prompts) == pytest.approx(300, rel=0.05)
        assert statistics.stdev(outputs) == pytest.approx(60, rel=0.05)

    def test_without_spread_is_always_the_same(self) -> None:
        mix = Mix(500, 0.2, prompt_cv=0, output_cv=0)

        assert mix.draw(random.Random(1)) == (500, 1)


class TestOpenLoop:
    def test_is_poisson_of_the_rate(self) -> None:
        recorder = Recorder()
        load = OpenLoop(DEMO.mix, random.Random(2), steady(20.0), peak=20.0)
        load.feed(recorder, 1000.0)

        assert len(recorder.times) == pytest.approx(20_000, abs=4 * math.sqrt(20_000))
        per_second = [0] * 1000
        for at in recorder.times:
            per_second[int(at)] += 1
        assert statistics.variance(per_second) == pytest.approx(20.0, rel=0.2)

    def test_follows_a_rate_that_changes(self) -> None:
        recorder = Recorder()
        rate = wave(0.0, 20.0, period_s=1000.0)
        OpenLoop(DEMO.mix, random.Random(3), rate, peak=20.0).feed(recorder, 1000.0)

        trough = sum(at < 250 or at >= 750 for at in recorder.times)
        crest = len(recorder.times) - trough
        # The mean of 1 - cos over the outer and the inner half: 1 ± 2/π.
        assert trough == pytest.approx(5_000 * (1 - 2 / math.pi), rel=0.1)
        assert crest == pytest.approx(5_000 * (1 + 2 / math.pi), rel=0.05)

    def test_does_not_depend_on_how_time_is_cut(self) -> None:
        engines = []
        for step in (0.5, 7.0):
            engine = Engine(DEMO.shape, "cut")
            load = OpenLoop(DEMO.mix, random.Random(4), steady(15.0), peak=15.0)
            for _ in drive(engine, load, 60.0, step=step):
                pass
            engines.append(engine)

        assert engines[0].counters == engines[1].counters
        assert engines[0].counters.completions > 500

    def test_the_running_gauge_obeys_littles_law(self) -> None:
        engine = Engine(DEMO.shape, "little")
        load = OpenLoop(DEMO.mix, random.Random(5), steady(12.0), peak=12.0)
        readings = [engine.running for _ in drive(engine, load, 600.0, step=0.5)]

        inference = engine.counters.request_inference_time_seconds.sum
        assert statistics.fmean(readings) * 600.0 == pytest.approx(inference, rel=0.05)


class TestClosedLoop:
    def test_keeps_every_client_busy(self) -> None:
        engine = tiny_engine()
        load = ClosedLoop(Mix(10, 3), random.Random(6), clients=6)
        for _ in drive(engine, load, 100.0):
            assert engine.open_requests == 6

        load.clients = 2
        load.feed(engine, 200.0)
        assert engine.open_requests == 2

    def test_clients_come_back_after_a_restart(self) -> None:
        engine = tiny_engine()
        load = ClosedLoop(Mix(10, 3), random.Random(6), clients=6)
        load.feed(engine, 10.0)
        engine.restart(11.0)
        load.feed(engine, 20.0)

        assert engine.open_requests == 6
        assert engine.counters.completions > 0

    def test_clients_think(self) -> None:
        engine = tiny_engine()
        mix = Mix(10, 1, prompt_cv=0, output_cv=0)
        load = ClosedLoop(mix, random.Random(7), clients=1, think_s=8.8)
        load.feed(engine, 100.0)

        assert engine.counters.completions == 10


def test_drive_yields_every_step_and_the_end() -> None:
    engine = tiny_engine()
    load = OpenLoop(DEMO.mix, random.Random(8), steady(0.0), peak=1.0)

    assert list(drive(engine, load, 2.5)) == [1.0, 2.0, 2.5]
