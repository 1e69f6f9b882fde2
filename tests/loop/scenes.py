"""A pool set up with one of the autoscalers, and what its history tells."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pytest

from sidecar.simulator import measure
from tests.gcp.metric_service import MetricService
from tests.loop.hpa import Hpa, Spec
from tests.loop.mig import Autoscaler, Missing, Policy
from tests.loop.pool import LOADING, MIX, SHAPE, Moment, Pool, Scaler
from tests.loop.scalers import Beside, HpaScaler, KedaScaler, MigScaler
from tests.loop.virtual import Network, Time

TARGET = 0.7
"""Of `llm_worker_utilization`."""

MINUTE = 60.0

Workers = Callable[[float], float]
"""Demand as a number of workers that it would keep full, at a virtual time."""


def mig_scaler(most: int) -> Scaler:
    """A MIG that allows a minute more than loading takes. The variants of what is not
    documented decide as well, and what they decide must be the same."""
    policies = [
        Policy(TARGET, 1, most, initialization=LOADING + MINUTE, missing=missing)
        for missing in (Missing.TARGET, Missing.AVERAGE, Missing.NOTHING)
    ]
    return Beside([MigScaler(Autoscaler(policy)) for policy in policies])


def hpa_scaler(most: int) -> Scaler:
    """An HPA as documented, `averageValue: 700m`."""
    return HpaScaler(Hpa(Spec(int(TARGET * 1000), 1, most)))


def keda_scaler(most: int) -> Scaler:
    """KEDA's, `threshold: "0.7"`. A worker without a reading counts for nothing there:
    the pool must not shrink before its page may be back."""
    return KedaScaler(Hpa(Spec(int(TARGET * 1000), 1, most, down_window=600.0)))


SCALERS: dict[str, Callable[[int], Scaler]] = {
    "mig": mig_scaler,
    "hpa": hpa_scaler,
    "keda": keda_scaler,
}


@contextmanager
def pool(
    scaler: str,
    workers: Workers,
    size: int,
    *,
    busiest: float,
    most: int = 12,
    seed: int = 1,
) -> Iterator[Pool]:
    """A pool whose first members are ready.

    Args:
        busiest: the highest value of `workers`.
        most: the autoscaler's upper bound.
        seed: of the requests, the only chance there is.
    """
    capacity = measure(SHAPE, MIX).capacity
    time, network = Time(), Network()
    with (
        pytest.MonkeyPatch.context() as patch,
        MetricService(clock=time.wall) as service,
    ):
        patch.setattr("sidecar.worker.HttpPage", network.connection)
        found = Pool(
            service,
            network,
            time,
            SCALERS[scaler](most),
            lambda at: capacity * workers(at),
            capacity * busiest,
            random.Random(seed),
        )
        found.resize(size, loading=0.0)
        try:
            yield found
        finally:
            found.close()


def between(*corners: tuple[float, float]) -> Workers:
    """Straight lines between corners of (minute, workers), level after the last."""

    def demand(at: float) -> float:
        minute = at / MINUTE
        for (start, low), (end, high) in pairwise(corners):
            if minute < end:
                return low + (high - low) * max(0.0, minute - start) / (end - start)
        return corners[-1][1]

    return demand


def during(history: Sequence[Moment], start: float, end: float) -> list[Moment]:
    """The moments from one minute to another."""
    return [each for each in history if start <= each.at / MINUTE <= end]


def changes(history: Sequence[Moment]) -> list[tuple[float, int]]:
    """Every change of the size: the minute, and the size from then on."""
    return [
        (later.at / MINUTE, later.size)
        for earlier, later in pairwise(history)
        if later.size != earlier.size
    ]
