"""When the next tick is due, and waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import floor


def next_tick(started: float, interval: float, now: float) -> float:
    """The first time after ``now`` on the grid started + k · interval, seconds.

    The grid does not drift, and ticks that were missed are skipped, not caught up.
    """
    return started + (floor((now - started) / interval) + 1) * interval


def wait_until(
    due: float,
    stop: threading.Event,
    clock: Callable[[], float],
    beat: Callable[[], None],
    every: float,
) -> None:
    """Wait, and beat at least every so many seconds, until it is time or to stop."""
    while not stop.wait(min(max(0.0, due - clock()), every)) and clock() < due:
        beat()
