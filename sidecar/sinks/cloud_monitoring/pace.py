"""When a point may be written: end times only rise, and by five seconds or more.

Rules: the reference of ``TimeInterval``, and cloud.google.com/monitoring/quotas.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from sidecar.reading import Identity, Reading
from sidecar.sink_settings import SHORTEST_WRITE

SLACK = 1.0
"""Seconds by which a poll may come early: its point is dated later by as much."""

AHEAD = 300.0
"""Seconds: a point further ahead of the service's clock is not taken."""

REMEMBERED = 3600.0
"""Seconds for which the last point of a worker is remembered that sends no more."""


class Due(NamedTuple):
    """Readings to write, each with its end time, Unix seconds; and how far the clock
    went back for the others."""

    points: list[tuple[Reading, float]]
    back: float


class Sent(NamedTuple):
    """The end time of a point, Unix seconds, and whether it is known to be stored."""

    end: float
    is_stored: bool

    def holds(self, now: float) -> bool:
        """Whether a later point has to be later than it."""
        return self.is_stored or self.end - now <= AHEAD


class Pace:
    """The end times that were sent.

    Attributes:
        known: the last one of each worker.
    """

    def __init__(self) -> None:
        self.known: dict[Identity, Sent] = {}

    def due(self, readings: Iterable[Reading]) -> Due:
        """The readings that may be written now; the others are too soon."""
        points, back = [], 0.0
        for reading in readings:
            end, sent = round(reading.time, 3), self.known.get(reading.identity)
            last = sent.end if sent and sent.holds(end) else -inf
            if end - last >= SHORTEST_WRITE:
                points.append((reading, end))
            elif end - last >= SHORTEST_WRITE - SLACK:
                points.append((reading, last + SHORTEST_WRITE))
            else:
                back = max(back, last - end)
        return Due(points, back)

    def sent(self, points: Iterable[tuple[Reading, float]], *, stored: bool) -> None:
        """The points are stored, or may be: no answer came."""
        self.known |= {who.identity: Sent(end, stored) for who, end in points}
        ends = [sent.end for sent in self.known.values()]
        oldest = max(ends, default=0.0) - REMEMBERED
        self.known = {who: at for who, at in self.known.items() if at.end >= oldest}
