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

SLOPES = tuple(0.002 * 1.3**i for i in range(24))
"""The grid of b, per request: from 0.002 to 0.9."""

POWERS = (0.9, 1.0, 1.1, 1.2)
AWAKE = (0.06, 0.15)
"""f: of 8 experts a token takes 2, of 128 it takes 8, and a prompt wakes them all."""
BENDS = (0.6, 0.9, 1.3, 1.9, 2.8, 4.0)

_FINE = 0.01
"""Step of log n at which heights are computed: 0.3 % of h at the very most."""


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

    Attributes:
        slope: median of b for requests, per request; a part of it is their prompts.
        token_slope: the same for tokens, whose prompts are counted apart.
        slope_log_sd: spread of b around its median, log-normal.
        prompt_token: time of a prompt token over α of a generated one.
        prompt_log_sd: its spread.
        kinds: probability of each power, and of all bends together.
        beyond_sd: how far a curve leaves the shape that fits it up to some concurrency:
            spread of log X for each factor e beyond.
    """

    slope: float
    token_slope: float
    slope_log_sd: float
    prompt_token: float
    prompt_log_sd: float
    kinds: dict[str, float]
    beyond_sd: float

    def shapes(self) -> Iterator[Shape]:
        """The candidates."""
        bends = len(AWAKE) * len(BENDS)
        for kind in KINDS:
            among = bends if kind.bend else 1
            share = self.kinds[kind.name] / among / len(SLOPES)
            for slope in SLOPES:
                yield Shape(kind, slope, log(share))

    def log_density(self, slope: float, median: float) -> float:
        """Of a slope, up to a constant."""
        return -0.5 * (log(slope / median) / self.slope_log_sd) ** 2

    def log_weights(self, *, tokens: bool) -> tuple[float, ...]:
        """Of every candidate, where the unit is a token or a request."""
        median = self.token_slope if tokens else self.slope
        return tuple(
            shape.weight + self.log_density(shape.slope, median)
            for shape in self.shapes()
        )


@cache
def prior() -> Prior:
    """The prior that comes with this package."""
    text = files("sidecar.estimators").joinpath("prior.json").read_text("utf-8")
    return Prior(**json.loads(text))


@cache
def candidates() -> tuple[Shape, ...]:
    """The candidates under that prior."""
    return tuple(prior().shapes())


@cache
def log_weights(*, tokens: bool) -> tuple[float, ...]:
    """Of every candidate under that prior."""
    return prior().log_weights(tokens=tokens)


def log_heights(concurrency: float) -> tuple[float, ...]:
    """log h(n) of every candidate, in their order."""
    return _log_heights(round(log(concurrency) / _FINE))


@lru_cache(maxsize=1024)
def _log_heights(step: int) -> tuple[float, ...]:
    concurrency = exp(step * _FINE)
    lines = [1 + slope * concurrency for slope in SLOPES]
    found: list[float] = []
    for kind in KINDS:
        rise = kind.bend * (1 - (1 - kind.awake) ** concurrency)
        found += [kind.power * log(line + rise) for line in lines]
    return tuple(found)
