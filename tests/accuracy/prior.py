"""The prior of the shapes, computed from the published curves: ``make prior``.

Expectation-maximization: each curve is shared out among kinds and slopes by how well
they explain it, then the probabilities of the kinds and the median and spread of the
slope are what the curves say on average.
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path

import sidecar.estimators
from sidecar.estimators.shapes import KINDS, Prior, heights
from tests.accuracy.curves import Curve, load

FILE = Path(sidecar.estimators.__file__).parent / "prior.json"

SCATTER = 0.06
"""Error of a published point's log R: repeated runs of one set-up differ so much."""

ROUNDS = 12
SPREAD = 4.0
"""Curves shared out evenly beforehand: no kind is impossible for being unseen."""

LEAST_SPREAD = 0.5
"""Forty curves do not show how far the next one may be off."""

BENT = 0.05
"""Probability of a bend. It is for the points to show one: taken for likely, every
dense model at light load would look like the beginning of a bend."""


PER_PROMPT = tuple(round(0.001 * i, 3) for i in range(1, 13))
"""Candidates for the slope that a prompt token adds, per request."""

ROOFLINE, ROOFLINE_LOG_SD = 0.006, 0.5
"""What it should be: a prompt token takes 2 operations a weight, a step reads 2 bytes a
weight, so it is bandwidth over half the peak rate: 0.0067 on an H100, 0.0128 on an
A100, 0.005 on an L4. The curves have few ratios to tell it from."""


def compute(curves: list[Curve]) -> Prior:
    """The prior that explains these curves best."""
    fitted = {slope: _fitted(curves, slope) for slope in PER_PROMPT}
    scores = {
        slope: likelihood - (log(slope / ROOFLINE) / ROOFLINE_LOG_SD) ** 2 / 2
        for slope, (_, likelihood) in fitted.items()
    }
    return fitted[max(scores, key=scores.__getitem__)][0]


def _fitted(curves: list[Curve], per_prompt: float) -> tuple[Prior, float]:
    """The best prior with this slope per prompt token, and its log likelihood."""
    even = {kind.name: 1.0 for kind in KINDS}
    share = (1 - BENT) / (len(even) - 1)
    kinds = {name: BENT if name == "bend" else share for name in even}
    ratio = sum(curve.prompt_ratio for curve in curves) / len(curves)
    prior = Prior(0.02, per_prompt, 0.7, round(ratio, 3), kinds)
    likelihood = 0.0
    for _ in range(ROUNDS):
        shares = {name: SPREAD / len(kinds) for name in kinds}
        rest: list[tuple[float, float]] = []
        likelihood = 0.0
        for curve in curves:
            found, score = _responsible(curve, prior)
            likelihood += score
            for name, slope, probability in found:
                shares[name] += probability
                left = slope / (prior.slope + per_prompt * curve.prompt_ratio)
                rest.append((log(left), probability))
        total = sum(probability for _, probability in rest)
        off = sum(x * p for x, p in rest) / total
        spread = (sum(p * (x - off) ** 2 for x, p in rest) / total) ** 0.5
        straight = sum(v for name, v in shares.items() if name != "bend")
        prior = Prior(
            slope=round(max(1e-3, prior.slope * exp(off)), 5),
            slope_per_prompt=per_prompt,
            slope_log_sd=round(max(LEAST_SPREAD, spread), 3),
            prompt_ratio=prior.prompt_ratio,
            kinds={
                name: BENT if name == "bend" else round(v / straight * (1 - BENT), 4)
                for name, v in shares.items()
            },
        )
    return prior, likelihood


def _responsible(
    curve: Curve, prior: Prior
) -> tuple[list[tuple[str, float, float]], float]:
    """Kind, slope and probability of each candidate; and the curve's likelihood."""
    scored = []
    points = [(log(n / x), heights(n)) for n, x in curve.points]
    for i, shape in enumerate(prior.shapes()):
        z = [y - log(height[i]) for y, height in points]
        middle = sum(z) / len(z)
        misfit = sum((each - middle) ** 2 for each in z) / SCATTER**2
        slope = prior.log_density(shape.slope, curve.prompt_ratio)
        scored.append((shape, shape.weight + slope - misfit / 2))
    top = max(score for _, score in scored)
    weights = [exp(score - top) for _, score in scored]
    total = sum(weights)
    found = [
        (shape.kind.name, shape.slope, weight / total)
        for (shape, _), weight in zip(scored, weights, strict=True)
    ]
    return found, top + log(total) - log(prior.slope_log_sd)


if __name__ == "__main__":
    found = compute(load())
    FILE.write_text(json.dumps(vars(found), indent=1) + "\n", "utf-8")
