"""How far estimates are from the truth: ``make accuracy``.

Every row is many runs of known capacity; `curve` is the estimator, `rate` the seed's,
its lifetime maximum of single polls, and `peak` the highest rate of any minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from multiprocessing import Pool
from operator import methodcaller
from typing import Protocol

from sidecar.simulator import PRESETS
from tests.accuracy import curves, recorded, runs, shift
from tests.accuracy.runs import Run
from tests.accuracy.shift import Shift
from tests.accuracy.simulated import Strip, Work, everything, requests, tokens
from tests.accuracy.workloads import Steady, Wandering

SEEDS = range(3)
MORE_SEEDS = range(5)
KV_LIMITED = ("small-gpu", "long-answers")
ONE_A_SECOND = {"dense-8b": 26.3, "short-chat": 87.5, "dense-70b": 15.1}
"""Presets, and about what they can do: one request a second is far below."""


class Job(Protocol):
    """One run."""

    def run(self) -> Run:
        """All methods on it."""
        ...


def published(share: float, *, moe: bool) -> list[Job]:
    """Counter and gauge only, load up to a share of saturation."""
    chosen = [curve for curve in curves.load() if curve.is_moe is moe]
    return [Wandering(curve, share, seed) for curve in chosen for seed in SEEDS]


def simulated(names: Iterable[str], strip: Strip = everything) -> list[Job]:
    """A quarter of an hour between 5 % and 30 % of the capacity."""
    return [
        Work(name, 0.05, 0.3, 15, seed, strip) for name in names for seed in MORE_SEEDS
    ]


def steady() -> list[Job]:
    """An hour at a quarter of the capacity."""
    return [Work(name, 0.25, 0.25, 60, seed) for name in PRESETS for seed in SEEDS]


def rows() -> list[tuple[str, Sequence[Job]]]:
    """Every line of the first table."""
    every = [*published(1.0, moe=False), *published(1.0, moe=True)]
    quiet = [
        Work(name, 1 / capacity, 1 / capacity, 60, seed)
        for name, capacity in ONE_A_SECOND.items()
        for seed in SEEDS
    ]
    constant = [Steady(curve, 0.25, 1.0, 0) for curve in curves.load()]
    return [
        ("dense curves, up to half", published(0.5, moe=False)),
        ("dense curves, up to a quarter", published(0.25, moe=False)),
        ("mixtures of experts, up to half", published(0.5, moe=True)),
        ("mixtures of experts, up to a quarter", published(0.25, moe=True)),
        ("all curves, up to saturation", every),
        ("all curves, an hour at a constant 25 %", constant),
        ("simulated vLLM, 15 min at 5-30 %", simulated(PRESETS)),
        ("of them, limited by their KV cache", simulated(KV_LIMITED)),
        ("simulated, tokens counted but not timed", simulated(PRESETS, tokens)),
        ("simulated, requests counted only", simulated(PRESETS, requests)),
        ("simulated vLLM, an hour at a constant 25 %", steady()),
        ("simulated vLLM, an hour at 1 request/s", quiet),
    ]


RUN = methodcaller("run")
"""A job, in another process."""


def _heading(columns: Sequence[str]) -> str:
    return f"| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|"


if __name__ == "__main__":
    with Pool() as pool:
        print(_heading(runs.COLUMNS), flush=True)
        for name, jobs in rows():
            print(runs.row(name, pool.map(RUN, jobs, chunksize=1)), flush=True)
        print("\n" + _heading(shift.COLUMNS), flush=True)
        for name, strip in (
            ("simulated vLLM", everything),
            ("tokens counted but not timed", tokens),
        ):
            steps = [Shift(preset, seed, strip) for preset in PRESETS for seed in SEEDS]
            print(shift.row(name, pool.map(RUN, steps, chunksize=1)), flush=True)
        print("\n" + _heading(recorded.COLUMNS))
        for step in (1, 5):
            print(recorded.row(step))
