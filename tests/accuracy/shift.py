"""Requests that become four times as long in one step: how long it is wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sidecar.estimators.base import Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.simulator import PRESETS, measure
from tests.accuracy.simulated import Strip, intervals
from tests.accuracy.workloads import POLL, wander

FACTOR = 4.0
MINUTES = 20.0
LOW, HIGH = 0.15, 0.5

COLUMNS = ("output × 4 in a step", "runs", "off by 2 ×, longest", "error after 10 min")


@dataclass(frozen=True)
class Shift:
    """A preset under such a load.

    Attributes:
        strip: what the page exports.
    """

    preset: str
    seed: int
    strip: Strip

    def run(self) -> tuple[float, float]:
        """Seconds in a row that it was off by a factor 2, and the median error in the
        ten minutes from the tenth on."""
        preset = PRESETS[self.preset]
        longer = replace(preset.mix, output_tokens=FACTOR * preset.mix.output_tokens)
        mixes = (preset.mix, longer)
        rng = random.Random(f"{self.preset} {self.seed}")
        half = int(MINUTES * 60 / POLL)
        truths = [measure(preset.shape, mix).capacity for mix in mixes]
        rates = [truth * x for truth in truths for x in wander(LOW, HIGH, half, rng)]
        found = intervals(self.preset, rates, rng, lambda i: mixes[i > half])
        learning = Learning.begin(CurveEstimator(preset.shape.max_num_seqs))
        ratios = []
        for interval in found:
            learning = learning.after(self.strip(interval))
            estimate = learning.estimate
            ratios.append((estimate.capacity if estimate else 0.0) / truths[1])
        after = ratios[half:]
        longest = now = 0
        for ratio in after:
            now = 0 if 0.5 <= ratio <= 2 else now + 1
            longest = max(longest, now)
        errors = sorted(abs(ratio - 1) for ratio in after[int(600 / POLL) :])
        return longest * POLL, errors[len(errors) // 2]


def row(name: str, runs: list[tuple[float, float]]) -> str:
    """A line of the table: the worst of all presets."""
    longest = max(seconds for seconds, _ in runs)
    errors = sorted(error for _, error in runs)
    middle, worst = errors[len(errors) // 2], errors[-1]
    cells = (name, len(runs), f"{longest:.0f} s", f"{middle:.0%}, worst {worst:.0%}")
    return f"| {' | '.join(map(str, cells))} |"
