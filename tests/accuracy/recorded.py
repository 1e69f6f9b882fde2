"""Recordings of a real vLLM whose capacity was measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from sidecar import trace
from sidecar.estimators.base import Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.interval import between

FOLDER = Path(__file__).parent.parent / "fixtures" / "traces"
SEQUENCES, CAPACITY = 16.0, 16.1
"""Of that worker: its --max-num-seqs, and its requests/s with a queue."""

COLUMNS = (
    "real vLLM, load as a sine",
    "first estimate",
    "estimate / truth from 60 s on",
    "from 150 s on, saturated",
)


def ratios(step: int) -> list[tuple[float, float]]:
    """(seconds, estimate over truth) of the sine, with every ``step``-th poll."""
    learning, found = Learning.begin(CurveEstimator(SEQUENCES)), []
    rows = trace.read(FOLDER / "vllm-0.32.0-cpu-sine.csv")
    samples = [row.sample for row in rows if row.sample][::step]
    for earlier, later in pairwise(samples):
        if interval := between(earlier, later):
            learning = learning.after(interval)
        if learning.estimate:
            found.append((later.at, learning.estimate.capacity / CAPACITY))
    return found


def row(step: int) -> str:
    """A line of the table."""
    found = ratios(step)
    cells = [f"polled every {step} s", f"{found[0][1]:.2f} at {found[0][0]:.0f} s"]
    for since in (60, 150):
        later = [ratio for at, ratio in found if at > since]
        cells.append(f"{min(later):.2f} to {max(later):.2f}")
    return f"| {' | '.join(cells)} |"
