"""When a point may be written: end times only rise, and by five seconds or more.

Rules: the reference of ``TimeInterval``, and cloud.google.com/monitoring/quotas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sidecar.reading import Identity, Reading
from sidecar.sink_settings import SHORTEST_WRITE

SLACK = 0.5
"""Seconds by which a poll may come early: its point is dated later by as much."""

REMEMBERED = 3600.0
"""Seconds for which the last point of a worker is remembered that sends no more."""


class Due(NamedTuple):
    """Readings to write, each with its end time, Unix seconds; and how far the clock
    went back for the others."""

    points: list[tuple[Reading, float]]
    back: float


class Pace:
    """The end times that were sent.

    Attributes:
        known: the last one of each worker, Unix seconds.
    """

    def __init__(self) -> None:
        self.known: dict[Identity, float] = {}

    def due(self, readings: Iterable[Reading]) -> Due:
        """The readings that may be written now; the others are too soon."""
        points, back = [], 0.0
        for reading in readings:
            end, last = round(reading.time, 3), self.known.get(reading.identity)
            if last is None or end - last >= SHORTEST_WRITE:
                points.append((reading, end))
            elif end - last >= SHORTEST_WRITE - SLACK:
                points.append((reading, last + SHORTEST_WRITE))
            else:
                back = max(back, last - end)
        return Due(points, back)

    def sent(self, points: Iterable[tuple[Reading, float]]) -> None:
        """The points are stored, or may be."""
        self.known |= {reading.identity: end for reading, end in points}
        oldest = max(self.known.values(), default=0.0) - REMEMBERED
        self.known = {who: at for who, at in self.known.items() if at >= oldest}
