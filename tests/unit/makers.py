"""Small samples and intervals to reason about by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sidecar.engines.base import GENERATION_TOKENS
from sidecar.interval import Interval
from sidecar.reading import Identity, Reading, Values
from sidecar.sample import Sample
from sidecar.states import State

FIXTURES = Path(__file__).parent.parent / "fixtures"
PAGES = sorted((FIXTURES / "metrics").glob("*.txt"))
IDENTITY = Identity("m", "org/m", "host:8000")


def page(name: str) -> str:
    """A real page by its name without ending."""
    return (FIXTURES / "metrics" / f"{name}.txt").read_text(encoding="utf-8")


def sample(at: float, done: float, running: float = 0, /, **more: Any) -> Sample:
    """A sample of a worker with one series of finished requests."""
    tokens = more.pop("tokens", None)
    counters = {} if tokens is None else {GENERATION_TOKENS: {(): float(tokens)}}
    values: dict[str, Any] = {
        "engine": "vllm",
        "model_name": "org/m",
        "running": float(running),
        "finished": {(("finished_reason", "stop"),): float(done)},
        "counters": counters,
        **more,
    }
    return Sample(at=at, **values)


def interval(
    end: float,
    completions: float,
    running: tuple[float, float] = (0, 0),
    waiting: tuple[float, float] = (0, 0),
    duration: float = 5.0,
    **more: Any,
) -> Interval:
    """An interval in which every departure is a completion."""
    values: dict[str, Any] = {"departures": completions, **more}
    return Interval(
        end=end,
        duration=duration,
        completions=completions,
        running=running,
        waiting=waiting,
        **values,
    )


def reading(identity: Identity = IDENTITY, time: float = 1e9, **more: Any) -> Reading:
    """A reading of a serving worker."""
    values: dict[str, Any] = {
        "state": State.SERVING,
        "published": 12.5,
        "capacity": 12.5,
        "utilization": 0.5,
        **more,
    }
    return Reading(identity, time, Values(**values), "by hand")
