"""A worker that is simulated, so that its true capacity is known.

`Engine` steps through continuous batching in simulated time; a `Load` drives it;
`SimulatedWorker` serves it as a vLLM metrics page; `truth` says what it can sustain.
"""

from __future__ import annotations

from sidecar.simulator.counters import FINISHED_REASONS, Counters, Histogram
from sidecar.simulator.engine import Engine
from sidecar.simulator.load import ClosedLoop, Load, OpenLoop, drive, steady, wave
from sidecar.simulator.model import Mix, Shape
from sidecar.simulator.page import render
from sidecar.simulator.scheduler import Request
from sidecar.simulator.server import SimulatedWorker
from sidecar.simulator.shapes import PRESETS, Preset
from sidecar.simulator.truth import Truth, measure, true_capacity, true_limit

__all__ = [
    "FINISHED_REASONS",
    "PRESETS",
    "ClosedLoop",
    "Counters",
    "Engine",
    "Histogram",
    "Load",
    "Mix",
    "OpenLoop",
    "Preset",
    "Request",
    "Shape",
    "SimulatedWorker",
    "Truth",
    "drive",
    "measure",
    "render",
    "steady",
    "true_capacity",
    "true_limit",
    "wave",
]
