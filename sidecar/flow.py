"""Throughput, demand and load over the last moments."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.interval import Interval

SPAN, LONGEST = 60.0, 600.0
"""The time to average over, seconds; and where there are few departures in it."""

ENOUGH_DEPARTURES, FEW_DEPARTURES = 100.0, 10.0
"""Counting alone puts a rate of 100 off by 10 %, of a pool of four by 5 %: less than an
HPA tolerates. A busy worker needs no longer average, and shows a change sooner. A rate
of 10 is off by a third, of less by anything."""

FEWEST_INTERVALS = 3
"""The gauges dip between engine steps: one or two readings may both be low."""


@dataclass(frozen=True)
class Flow:
    """The last few intervals: enough to average, at least one.

    A minute of them, and less where there are many departures.

    Attributes:
        fewest: departures; with fewer it is up to ten minutes.
    """

    intervals: tuple[Interval, ...] = ()
    fewest: float = 0.0

    def after(self, interval: Interval) -> Flow:
        """The flow with one more interval and without those that are not needed."""
        kept = [interval]
        departures = interval.departures
        for old in reversed(self.intervals):
            age = interval.end - (old.end - old.duration)
            enough = len(kept) >= FEWEST_INTERVALS and departures >= ENOUGH_DEPARTURES
            long = LONGEST if departures < self.fewest else SPAN
            if enough or age > long:
                break
            kept.insert(0, old)
            departures += old.departures
        return Flow(tuple(kept), self.fewest)

    @property
    def is_settled(self) -> bool:
        """Whether the rates say something."""
        if len(self.intervals) < FEWEST_INTERVALS and self._seconds < SPAN:
            return False
        departures = sum(i.departures for i in self.intervals)
        return departures >= FEW_DEPARTURES or self._seconds >= LONGEST / 2

    @property
    def throughput(self) -> float:
        """Completions per second."""
        return self._rate(sum(i.completions for i in self.intervals))

    @property
    def demand(self) -> float:
        """Arrivals per second: departures plus the growth of running and waiting."""
        if not self.intervals:
            return 0.0
        first, last = self.intervals[0], self.intervals[-1]
        growth = last.running[1] + last.waiting[1] - first.running[0] - first.waiting[0]
        departures = sum(i.departures for i in self.intervals)
        return self._rate(max(0.0, departures + growth))

    @property
    def present(self) -> float:
        """Mean of running plus waiting over the readings, requests."""
        return _mean([i.running[1] + i.waiting[1] for i in self.intervals])

    @property
    def waiting(self) -> float:
        """Mean of waiting over the readings, requests."""
        return _mean([i.waiting[1] for i in self.intervals])

    @property
    def _seconds(self) -> float:
        return sum(i.duration for i in self.intervals)

    def _rate(self, count: float) -> float:
        return count / self._seconds if self._seconds > 0 else 0.0


def _mean(readings: list[float]) -> float:
    return sum(readings) / len(readings) if readings else 0.0
