"""What the tests of the commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sidecar.simulator import PRESETS, Engine, SimulatedWorker


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedWorker]:
    """A simulated worker, named to the commands, polled quickly."""
    monkeypatch.setenv("SIDECAR_POLL_INTERVAL", "100ms")
    with SimulatedWorker(Engine(PRESETS["demo"].shape, "demo/model")) as found:
        monkeypatch.setenv("SIDECAR_TARGETS", f"127.0.0.1:{found.port}")
        yield found
