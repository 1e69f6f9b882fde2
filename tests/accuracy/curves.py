"""Published throughput curves of real GPUs, as workers with a known capacity."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "fixtures" / "curves"

MOE = ("mixtral", "minimax", "nemotron")
"""Mixture-of-experts models, whose R(n) bends the other way at low n."""

NOT_CLEAN = {
    "h100x8_llama-405b-fp8_in32784_out2048": "KV-limited from its first row on",
}
"""Curves that say nothing about a curve, see the README there."""

SHAREGPT_OUTPUT = 340.0
"""Output tokens of the suites that do not say, by the README there."""

QUEUED = 256
"""vLLM's sequence limit then: bursts above it queue, so their concurrency is not n."""


@dataclass(frozen=True)
class Curve:
    """Throughput over concurrency, requests/s over requests, rising to its highest.

    Attributes:
        prompt_ratio: prompt tokens for each token generated.
    """

    name: str
    prompt_ratio: float
    points: tuple[tuple[float, float], ...]

    @property
    def is_moe(self) -> bool:
        """Whether the model is a mixture of experts."""
        return any(word in self.name for word in MOE)

    @cached_property
    def limit(self) -> float:
        """The saturating concurrency: where the published throughput is highest."""
        return max(self.points, key=lambda point: point[1])[0]

    @property
    def capacity(self) -> float:
        """The throughput there, requests/s."""
        return max(x for _, x in self.points)

    def service_time(self, n: float) -> float:
        """R(n) = n / X(n), seconds; straight between the published points."""
        known = [(m, m / x) for m, x in self.points]
        if n <= known[0][0]:
            return known[0][1]
        for (m0, r0), (m1, r1) in pairwise(known):
            if n <= m1:
                return r0 + (r1 - r0) * (n - m0) / (m1 - m0)
        return known[-1][1] * n / known[-1][0]

    def throughput(self, n: float) -> float:
        """X(n), requests/s."""
        return n / self.service_time(n) if n > 0 else 0.0


def load() -> list[Curve]:
    """All clean curves, cut after their highest point."""
    found = []
    for path in sorted(FOLDER.glob("*.csv")):
        if path.stem in NOT_CLEAN:
            continue
        with path.open(encoding="utf-8", newline="") as file:
            table = [row for row in csv.DictReader(file) if row["requests_per_s"]]
        rows = [
            (min(float(row["concurrency"]), QUEUED), float(row["requests_per_s"]))
            for row in table
        ]
        output = float(table[0]["output_tokens"] or SHAREGPT_OUTPUT)
        ratio = float(table[0]["input_tokens"]) / output
        found.append(Curve(path.stem, ratio, _rising(rows)))
    return found


def _rising(rows: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points up to the highest; of several at one concurrency the highest."""
    best: dict[float, float] = {}
    for n, x in rows:
        best[n] = max(x, best.get(n, 0.0))
    points = sorted(best.items())
    top = max(range(len(points)), key=lambda i: points[i][1])
    return tuple(points[: top + 1])
