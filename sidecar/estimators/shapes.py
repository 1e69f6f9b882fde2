"""The shapes that R(n) may have: the time in service over the concurrency.

R(n) = α · h(n). A line, h = 1 + b·n, is what a roofline gives: a step reads the
weights, a fixed part, and does a part per sequence. Attention and caches bend it up or
down a little, (1 + b·n)^g. Where each further sequence wakes more of a model (experts),
h rises fast at first and then on a line, 1 + b·n + m·(1 - (1 - f)^n) with f the part
that one sequence wakes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from math import exp, log

SLOPES = tuple(0.004 * 1.42**i for i in range(17))
"""The grid of b, per request: from 0.004 to 1.1."""

POWERS = (0.9, 1.0, 1.1, 1.2)
AWAKE = (0.06, 0.25)
"""f: of 8 experts a token takes 2, of 128 it takes 8."""
BENDS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Kind:
    """A family of shapes that differ in their slope only: a power, or a bend."""

    power: float = 1.0
    awake: float = 0.0
    bend: float = 0.0

    @property
    def name(self) -> str:
        """As in the file of the prior."""
        return "bend" if self.bend else f"power {self.power:g}"


KINDS = (
    *(Kind(power=power) for power in POWERS),
    *(Kind(awake=awake, bend=bend) for awake in AWAKE for bend in BENDS),
)


@dataclass(frozen=True)
class Shape:
    """One candidate: a kind with a slope.

    Attributes:
        weight: log of the kind's probability, shared out over its grid of slopes.
    """

    kind: Kind
    slope: float
    weight: float


@dataclass(frozen=True)
class Prior:
    """What published curves have in common.

    A request also stalls the others while its prompt is computed, so the slope grows
    with r, the prompt tokens computed for each token generated: its median is
    ``slope`` + ``slope_per_prompt`` · r.

    Attributes:
        slope, slope_per_prompt: per request.
        slope_log_sd: spread of b around its median, log-normal.
        prompt_ratio: r where it is not known.
        kinds: probability of each power, and of all bends together.
    """

    slope: float
    slope_per_prompt: float
    slope_log_sd: float
    prompt_ratio: float
    kinds: dict[str, float]

    def shapes(self) -> Iterator[Shape]:
        """The candidates."""
        bends = len(AWAKE) * len(BENDS)
        for kind in KINDS:
            among = bends if kind.bend else 1
            share = self.kinds[kind.name] / among / len(SLOPES)
            for slope in SLOPES:
                yield Shape(kind, slope, log(share))

    def log_density(self, slope: float, prompt_ratio: float | None) -> float:
        """Of a slope, up to a constant."""
        ratio = self.prompt_ratio if prompt_ratio is None else prompt_ratio
        median = self.slope + self.slope_per_prompt * ratio
        return -0.5 * (log(slope / median) / self.slope_log_sd) ** 2


@cache
def prior() -> Prior:
    """The prior that comes with this package."""
    text = files("sidecar.estimators").joinpath("prior.json").read_text("utf-8")
    return Prior(**json.loads(text))


@cache
def candidates() -> tuple[Shape, ...]:
    """The candidates under that prior."""
    return tuple(prior().shapes())


# The concurrency limit is asked about again and again.
@lru_cache(maxsize=256)
def heights(concurrency: float) -> tuple[float, ...]:
    """h(n) of every candidate, in their order; quick, since every poll asks."""
    lines = [1 + slope * concurrency for slope in SLOPES]
    logs = [log(line) for line in lines]
    found: list[float] = []
    for kind in KINDS:
        if kind.bend:
            rise = kind.bend * (1 - (1 - kind.awake) ** concurrency)
            found += [line + rise for line in lines]
        elif kind.power == 1:
            found += lines
        else:
            power = kind.power
            found += [exp(power * each) for each in logs]
    return tuple(found)
