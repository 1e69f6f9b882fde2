from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.simulator import Engine, OpenLoop, SimulatedWorker
from tests.process.conftest import StartDaemon
from tests.process.daemon import Daemon
from tests.process.workers import MIX, MODEL, RATE, SHAPE

pytestmark = pytest.mark.process


@dataclass
class Tap:
    """A worker whose load can be turned off."""

    worker: SimulatedWorker
    rate: float = RATE


@pytest.fixture
def tap() -> Iterator[Tap]:
    now = time.monotonic()
    load = OpenLoop(MIX, random.Random(1), lambda _: found.rate, peak=RATE, start=now)
    found = Tap(SimulatedWorker(Engine(SHAPE, MODEL, started_at=now), load))
    with found.worker:
        yield found


def stop(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(5.0) == 0


def test_what_was_learned_survives_a_restart(
    tap: Tap, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    """The worker idles when the sidecar comes back: nothing can be learned then."""
    state = tmp_path / "state.json"
    settings = {"SIDECAR_TARGETS": tap.worker.url, "SIDECAR_STATE_FILE": str(state)}
    first = start_daemon(settings)
    first.wait_for_page()
    first.wait_for("llm_worker_capacity")
    first.wait_for("llm_worker_throughput", above=RATE / 2)
    capacity = first.value("llm_worker_capacity")
    stop(first)
    tap.rate = 0.0

    second = start_daemon(settings)
    second.wait_for_page()
    second.wait_for("llm_worker_state", state="idle")

    assert second.value("llm_worker_capacity") == pytest.approx(capacity, rel=0.5)
    assert second.value("llm_worker_utilization") == 0
    assert json.loads(state.read_text())["version"] == 1


def test_a_foreign_file_is_set_aside_and_the_daemon_goes_on(
    tap: Tap, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    state.write_text("not ours")

    daemon = start_daemon(SIDECAR_TARGETS=tap.worker.url, SIDECAR_STATE_FILE=str(state))
    daemon.wait_for_page()
    daemon.wait_for("llm_worker_capacity")
    stop(daemon)

    assert len(daemon.logged("SIDECAR_STATE_FILE")) == 1
    assert state.with_name("state.json.unusable").read_text() == "not ours"
    assert json.loads(state.read_text())["version"] == 1


def test_a_full_disk_costs_a_warning(
    tap: Tap, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    """A place that takes no file stands in for it."""
    folder = tmp_path / "gone"
    folder.mkdir()
    daemon = start_daemon(
        SIDECAR_TARGETS=tap.worker.url,
        SIDECAR_STATE_FILE=str(folder / "state.json"),
    )
    daemon.wait_for_page()
    folder.rmdir()
    daemon.wait_for("llm_worker_capacity")

    stop(daemon)

    assert len(daemon.logged("cannot be written")) == 1
