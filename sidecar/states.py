"""What the worker is doing, judged from its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sidecar.interval import Interval

STALL_INTERVALS = 3


class State(str, Enum):
    """In the words that are published."""

    UNREACHABLE = "unreachable"
    BASELINE = "baseline"
    IDLE = "idle"
    SERVING = "serving"
    SATURATED = "saturated"
    STALLED = "stalled"
    SLEEPING = "sleeping"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Quiet:
    """For how long requests were there and no counter moved."""

    intervals: int = 0
    seconds: float = 0.0


def judge(
    quiet: Quiet, interval: Interval, service_time: float | None
) -> tuple[State, Quiet]:
    """The state after an interval, and the quiet so far.

    Args:
        service_time: the mean time in service where it is known, seconds. Without
            token counters a worker that serves long requests is quiet in between.
    """
    present = max(*interval.running, *interval.waiting) > 0
    if interval.moved or not present:
        quiet = Quiet()
    else:
        quiet = Quiet(quiet.intervals + 1, quiet.seconds + interval.duration)
    if quiet.intervals >= STALL_INTERVALS and quiet.seconds > (service_time or 0.0):
        return State.STALLED, quiet
    if interval.queued:
        return State.SATURATED, quiet
    if interval.running[1] + interval.waiting[1] > 0 or interval.moved:
        return State.SERVING, quiet
    return State.IDLE, quiet
