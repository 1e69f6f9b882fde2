"""The rate seen: the signal that Apache Beam's vLLM handler publishes.

``max(1, completions/s × multiplier)`` at every poll, aggregated over a window. Below
saturation this is the demand, not the capacity, and its maximum latches counting
noise for ever; it is here for drop-in parity and as the baseline of comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.estimators.base import Estimate
from sidecar.interval import Interval
from sidecar.settings import Settings


@dataclass(frozen=True)
class RateState:
    """The rates in the window as (monotonic time, requests/s), and the highest ever."""

    rates: tuple[tuple[float, float], ...] = ()
    highest: float | None = None
    completions: float = 0.0


@dataclass(frozen=True)
class RateEstimator:
    """Aggregates the completion rates of single intervals.

    Attributes:
        aggregation: ``lifetime_max``, ``max``, ``mean``, ``last`` or ``p<NN>`` (nearest
            rank: the ceil(NN/100 · count)-th smallest).
        window: seconds that all but ``lifetime_max`` look back; 0 keeps everything.
        floor: no rate counts as less, requests/s. All aggregations commute with a
            positive factor, so the seed's ``max(1, rate × multiplier)`` is this with
            floor 1/multiplier, times the multiplier.
    """

    aggregation: str = "lifetime_max"
    window: float = 60.0
    floor: float = 1.0

    def start(self) -> RateState:
        """No rate yet."""
        return RateState()

    def step(
        self, state: RateState, interval: Interval
    ) -> tuple[RateState, Estimate | None]:
        """Add the interval's rate and aggregate."""
        rate = max(self.floor, interval.completions / interval.duration)
        highest = max(rate, state.highest or rate)
        rates: tuple[tuple[float, float], ...] = ()
        if self.aggregation != "lifetime_max":
            oldest = interval.end - self.window if self.window > 0 else float("-inf")
            kept = (old for old in state.rates if old[0] >= oldest)
            rates = (*kept, (interval.end, rate))
        completions = state.completions + interval.completions
        value = self._aggregate([r for _, r in rates], highest)
        estimate = Estimate(
            capacity=value,
            evidence=completions,
            method=f"{self.aggregation} of completions per second",
        )
        return RateState(rates, highest, completions), estimate

    def _aggregate(self, rates: list[float], highest: float) -> float:
        if self.aggregation == "lifetime_max":
            return highest
        if self.aggregation == "max":
            return max(rates)
        if self.aggregation == "mean":
            return sum(rates) / len(rates)
        if self.aggregation == "last":
            return rates[-1]
        percent = int(self.aggregation[1:])
        rank = (percent * len(rates) + 99) // 100
        return sorted(rates)[max(rank, 1) - 1]


def build(settings: Settings, max_concurrency: float | None) -> RateEstimator:  # noqa: ARG001
    """The estimator as configured. The rate seen knows no concurrency limit."""
    return RateEstimator(
        aggregation=settings.rate_aggregation,
        window=settings.rate_window,
        floor=settings.minimum / settings.multiplier,
    )
