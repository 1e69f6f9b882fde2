"""When the next tick is due."""

from __future__ import annotations

from math import floor


def next_tick(started: float, interval: float, now: float) -> float:
    """The first time after ``now`` on the grid started + k · interval, seconds.

    The grid does not drift, and ticks that were missed are skipped, not caught up.
    """
    return started + (floor((now - started) / interval) + 1) * interval
