"""A simulated worker that finishes a hundred short requests a second."""

from __future__ import annotations

import random
import time

from sidecar.simulator import Engine, Mix, OpenLoop, Shape, SimulatedWorker, steady

MODEL = "test/fast-1B"
TAG = "test_fast_1B"
SIGNAL = f"num_loaded_models_{TAG}"
RATE = 100.0

SHAPE = Shape(
    name="fast",
    step_fixed_s=4e-3,
    step_per_sequence_s=0.1e-3,
    step_per_kv_token_s=0.0,
    prefill_per_token_s=1e-6,
    max_num_seqs=64,
    kv_blocks=1024,
    max_model_len=1024,
)
MIX = Mix(prompt_tokens=20, output_tokens=20)
"""Ten run at once on average, so that no poll finds the worker empty by chance."""


def fast_worker(model: str = MODEL) -> SimulatedWorker:
    """Return a worker under steady load, not yet started."""
    now = time.monotonic()
    load = OpenLoop(MIX, random.Random(1), steady(RATE), peak=RATE, start=now)
    return SimulatedWorker(Engine(SHAPE, model, started_at=now), load)
