"""Readings as JSON lines on standard output; log lines go to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from sidecar.errors import SinkError
from sidecar.reading import Identity, Reading, gauges
from sidecar.settings import Settings


class StdoutSink:
    """One line a reading: its time, labels, and numbers by their published names."""

    name = "stdout"
    interval = 0.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def check(self) -> str:
        """Standard output is always there."""
        return "standard output"

    def publish(self, readings: Sequence[Reading]) -> None:
        """Write the lines at once."""
        for reading in readings:
            line = {
                "time": reading.time,
                **dict(reading.identity.all_labels),
                "state": str(reading.values.state),
                **{gauge.name: gauge.value for gauge in gauges(reading)},
            }
            self._write(json.dumps(line))

    def retire(self, identities: Sequence[Identity]) -> None:
        """Nothing to take away: what was written is history."""

    def close(self) -> None:
        """Nothing is open."""

    def _write(self, line: str) -> None:
        try:
            print(line, file=self._stream, flush=True)
        except (OSError, ValueError) as error:
            msg = f"standard output is gone: {error}"
            raise SinkError(msg, reason="closed") from None


def build(settings: Settings) -> StdoutSink:  # noqa: ARG001
    """The sink as configured; it has no settings."""
    return StdoutSink()
