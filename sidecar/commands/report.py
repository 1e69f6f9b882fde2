"""Readings as a person reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from sidecar.reading import Reading, gauges
from sidecar.states import State


def as_json(reading: Reading) -> str:
    """One line: labels, state, and every number under its published name."""
    return json.dumps(
        {
            **dict(reading.identity.all_labels),
            "time": round(reading.time, 3),
            "state": str(reading.values.state),
            "method": reading.method or None,
            "gauges": {gauge.name: gauge.value for gauge in gauges(reading)},
        }
    )


def as_text(readings: Iterable[Reading]) -> Iterator[str]:
    """The exact numbers that are published, and how they came about."""
    for reading in readings:
        identity = reading.identity
        name = identity.model_name or "a model without a name"
        yield f"{identity.worker}: {name}, {reading.values.state}"
        if reading.method:
            yield f"  {reading.method}"
        for gauge in gauges(reading):
            yield f"  {gauge.name:34} {gauge.value:.6g}"
        if reading.values.capacity is None and reading.values.state is State.IDLE:
            yield "  no capacity yet: the worker has not served anything since"
