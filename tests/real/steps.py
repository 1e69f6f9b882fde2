"""What is done to every worker: light load, then more than it can take, then none."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.real.daemon import Daemon
from tests.real.engines import SLOTS, Engine
from tests.real.gateway import Gateway
from tests.real.load import Load
from tests.real.tiny_model import NAME

LIGHT_SECONDS = (8.0, 12.0)
FULL_SECONDS = 25.0
NEAR = 0.25
NEAR_OVER_SECONDS = 0.5
"""A rate over a few seconds, on a machine that does other things too."""

TAG = "tiny_llama"

Note = Callable[[str], None]
"""Writes a figure into the summary."""


@dataclass(frozen=True)
class Learned:
    """What the sidecar said, and what the worker did, requests/s.

    Attributes:
        before: the estimate after light load only; after: at the end of saturation.
        rate: answered while saturated, by the worker's own counter.
    """

    before: float
    after: float
    rate: float


def light_load(daemon: Daemon, engine: Engine) -> float:
    """One client, then three; the estimate."""
    for clients, seconds in zip((1, 3), LIGHT_SECONDS, strict=True):
        with Load(engine.load_port, clients) as load:
            daemon.wait_state(engine.port, "serving")
            time.sleep(seconds)
        assert load.failed == 0
        assert load.answered > 0
    return float(daemon.at(engine.port)["capacity"])


def was_light(daemon: Daemon, engine: Engine) -> None:
    """No queue was seen, and the limit is the one on the command line."""
    said = daemon.at(engine.port)
    assert "saturated" not in daemon.states(engine.port)
    assert said["concurrency_limit"] == SLOTS
    assert "sequence limit" in said["method"]


def full_load(daemon: Daemon, engine: Engine, before: float) -> Learned:
    """Three times as many clients as it has slots."""
    with Load(engine.load_port, 3 * SLOTS) as load:
        daemon.wait_state(engine.port, "saturated")
        began, counted = time.monotonic(), engine.completed()
        time.sleep(FULL_SECONDS)
        answered = engine.completed() - counted
        rate = answered / (time.monotonic() - began)
        said = daemon.at(engine.port)
        assert said["state"] == "saturated"
        # Gauges dip between engine steps.
        assert SLOTS / 2 <= said["running"] <= SLOTS
        assert said["waiting"] > 0
        # Exactly 1: as many clients wait all the time, so the queue does not grow.
        assert said["utilization"] >= 1
        assert said["concurrency_limit"] == pytest.approx(SLOTS, abs=1)
        assert said["throughput"] == pytest.approx(rate, rel=NEAR_OVER_SECONDS)
    assert load.failed == 0
    return Learned(before, float(said["capacity"]), rate)


def no_load(daemon: Daemon, engine: Engine) -> None:
    """Idle: the estimate is held, utilization is 0."""
    daemon.wait_state(engine.port, "idle")
    said = daemon.at(engine.port)
    assert said["utilization"] == 0
    assert said["capacity"] > 0
    states = daemon.states(engine.port)
    assert {("serving", "saturated")} <= set(pairwise(states))
    assert states.index("saturated") < len(states) - 1
    assert states[-1] == "idle"


def was_near(learned: Learned, name: str, note: Note) -> None:
    """The estimate comes near the rate."""
    off, off_before = (x / learned.rate - 1 for x in (learned.after, learned.before))
    note(
        f"{name}: saturated rate {learned.rate:.2f} requests/s; estimate after light "
        f"load {learned.before:.2f} ({off_before:+.0%}), after saturation "
        f"{learned.after:.2f} ({off:+.0%})"
    )
    assert abs(off) <= NEAR


def is_pushed(daemon: Daemon, gateway: Gateway, engine: Engine) -> None:
    """Pushgateway and Prometheus have what the sidecar says, idle, under its labels."""
    said = daemon.at(engine.port)
    labels = {"job": "capacity-sidecar", "tag": TAG, "worker": said["worker"]}
    group = gateway.group(said["worker"])
    assert group["llm_worker_state/idle"] == 1
    assert group["llm_worker_capacity"] == pytest.approx(said["capacity"])
    assert group[f"num_loaded_models_{TAG}"] == pytest.approx(said["capacity"])
    assert group["llm_worker_utilization"] == 0
    assert group["llm_worker_running"] == 0
    assert group["llm_worker_concurrency_limit"] == said["concurrency_limit"]
    (found, value) = _only(gateway, said["worker"])
    assert labels.items() <= found.items()
    assert found["model_name"] == NAME
    assert value == pytest.approx(said["capacity"])


def killed(
    daemon: Daemon, gateway: Gateway, engine: Engine, pid: int, name: str, note: Note
) -> None:
    """One of its processes killed under load: unreachable, and nothing is pushed."""
    worker = daemon.at(engine.port)["worker"]
    with Load(engine.load_port, 3):
        daemon.wait_state(engine.port, "serving")
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        daemon.wait_state(engine.port, "unreachable")
        note(f"{name}: killed; unreachable after {time.monotonic() - began:.1f} s")
    held = gateway.group(worker)
    time.sleep(3)
    assert gateway.group(worker) == held, "something was pushed for a dead worker"
    engine.child.stop()


def found_again(
    daemon: Daemon, gateway: Gateway, old: Engine, new: Engine, learned: Learned
) -> None:
    """The worker that was killed serves elsewhere: one baseline, then it goes on."""
    name = daemon.at(old.port)["worker"]
    with Load(new.load_port, 3) as load:
        daemon.wait_state(new.port, "serving", 30)
        time.sleep(6)
        said = daemon.at(new.port)
    assert load.answered > 0
    assert daemon.at(old.port) == {}, "the worker moved, it is not a second one"
    states = daemon.states(old.port, new.port)
    assert ("unreachable", "baseline") in set(pairwise(states))
    assert states.count("baseline") == 2, "one at first and one after the restart"
    group = gateway.group(said["worker"])
    assert group["llm_worker_throughput"] > 0
    assert group["llm_worker_capacity"] == pytest.approx(learned.after, rel=NEAR)
    assert gateway.group(name) == {}, "the series of the old place are still there"


def numbers_are_sane(daemon: Daemon, learned: Learned, *ports: int) -> None:
    """Nothing negative, and no rate that the worker could not have had."""
    numbers = daemon.numbers(*ports)
    for name, values in numbers.items():
        assert min(values) >= 0, name
    for name in ("throughput", "demand"):
        # Requests that arrive at once count at once.
        assert max(numbers[name]) <= 3 * learned.rate + 3 * SLOTS, name
    assert max(numbers["running"]) <= SLOTS
    assert max(numbers["waiting"]) <= 3 * SLOTS


def ends_cleanly(daemon: Daemon, gateway: Gateway, name: str, note: Note) -> None:
    """SIGTERM: status 0 within 5 s, and nothing of it is left at the gateway."""
    assert gateway.pushed()
    status, seconds = daemon.stop()
    note(f"{name}: SIGTERM to the sidecar: exit {status} after {seconds:.2f} s")
    assert status == 0, daemon.child.tail()
    assert seconds < 5
    assert gateway.pushed() == {}


def _only(gateway: Gateway, worker: str) -> tuple[dict[str, str], float]:
    """The worker's capacity in Prometheus; it scrapes every second."""
    time.sleep(2.5)
    (series,) = gateway.query(f'llm_worker_capacity{{worker="{worker}"}}')
    return series
