"""An estimator of a third party's that hangs for as long as /run/hang is there."""

from __future__ import annotations

import time
from pathlib import Path

from sidecar.estimators.base import Estimate
from sidecar.estimators.rate import RateEstimator, RateState
from sidecar.interval import Interval
from sidecar.settings import Settings


class Hanging(RateEstimator):
    def step(
        self, state: RateState, interval: Interval
    ) -> tuple[RateState, Estimate | None]:
        while Path("/run/hang").exists():
            time.sleep(0.1)
        return super().step(state, interval)


def build(settings: Settings, max_concurrency: float | None) -> Hanging:
    del settings, max_concurrency
    return Hanging()
