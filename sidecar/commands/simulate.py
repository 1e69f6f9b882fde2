"""``simulate``: a simulated worker under rising and falling load, to be watched."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from sidecar import fieldtypes
from sidecar.errors import SettingsError
from sidecar.signals import StopRequest
from sidecar.simulator import (
    PRESETS,
    Engine,
    OpenLoop,
    SimulatedWorker,
    true_capacity,
    wave,
)

MODEL = "demo/llama-tiny"
PERIOD = 60.0
LOAD = (0.1, 1.1)
"""Offered load at the bottom and at the top of the wave, over the true capacity."""


@dataclass(frozen=True)
class Simulation:
    """A worker that is not yet started, and the truth about it.

    Attributes:
        capacity: requests/s that it can sustain.
        max_concurrency: requests that it runs at once.
        offered: requests/s at so many seconds from the start.
    """

    worker: SimulatedWorker
    capacity: float
    max_concurrency: int
    offered: Callable[[float], float]


def configure(parser: argparse.ArgumentParser) -> None:
    """Where its page is."""
    parser.add_argument(
        "--port", default="8000", help="the port of its page, on 127.0.0.1 (8000)"
    )


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Serve until stopped."""
    try:
        port = fieldtypes.port(options.port)
    except ValueError as error:
        hint = "for example --port 8000"
        raise SettingsError(f"--port {options.port!r} {error}; {hint}") from None
    simulation = simulated(port)
    try:
        simulation.worker.start()
    except OSError as error:
        reason = f"cannot be used: {error.strerror}"
        raise SettingsError(f"--port {port} {reason}; choose another") from None
    print(
        f"A simulated worker that can sustain {simulation.capacity:.1f} requests/s, "
        f"SIDECAR_MAX_CONCURRENCY={simulation.max_concurrency}: "
        f"{simulation.worker.url}",
        flush=True,
    )
    stop.wait()
    simulation.worker.stop()
    return 0


def simulated(port: int = 0) -> Simulation:
    """The worker of the demo; port 0 is any free one."""
    preset = PRESETS["demo"]
    truth = true_capacity(preset.shape, preset.mix)
    started = time.monotonic()
    shape = wave(LOAD[0] * truth, LOAD[1] * truth, PERIOD)
    load = OpenLoop(
        preset.mix,
        random.Random(1),
        lambda at: shape(at - started),
        peak=LOAD[1] * truth,
        start=started,
    )
    engine = Engine(preset.shape, MODEL, started_at=started)
    worker = SimulatedWorker(engine, load, port=port)
    return Simulation(worker, truth, preset.shape.max_num_seqs, shape)
