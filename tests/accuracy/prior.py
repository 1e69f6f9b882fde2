"""The prior of the shapes, computed from the published curves: ``make prior``.

Expectation-maximization: each curve is shared out among kinds and slopes by how well
they explain it, then the probabilities of the kinds and the median and spread of the
slope are what the curves say on average. What curves do beyond the highest concurrency
seen is measured on their lower halves and quarters.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import pstdev

import sidecar.estimators
from sidecar.estimators.evidence import Evidence
from sidecar.estimators.posterior import explain
from sidecar.estimators.shapes import KINDS, Prior, log_heights
from tests.accuracy.curves import Curve, load

FILE = Path(sidecar.estimators.__file__).parent / "prior.json"

SCATTER = 0.06
"""Error of a published point's log R: repeated runs of one set-up differ so much."""

ROUNDS = 8
SPREAD = 4.0
"""Curves shared out evenly beforehand: no kind is impossible for being unseen."""

LEAST_SPREAD = 0.7
"""Forty curves of GPUs do not show how far the next worker may be off."""

BENT = 0.12
"""Probability of a bend. It is for the points to show one: taken for likely, every
dense model at light load would look like the beginning of a bend."""

PER_PROMPT = tuple(round(0.0005 * i, 4) for i in range(3, 17))
"""Candidates for the slope that a prompt token adds, per request."""

ROOFLINE, ROOFLINE_LOG_SD = 0.006, 0.5
"""What it should be: a prompt token takes 2 operations a weight, a step reads 2 bytes a
weight, so it is bandwidth over half the peak rate, by what of either is reached: 0.005
on an H100, 0.0098 on an A100, 0.0037 on an L4. The curves have few ratios to tell it
from."""

SHARES = (0.25, 0.5)
LEVELS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
"""Of the share of a curve that is shown."""


def compute(curves: list[Curve]) -> Prior:
    """The prior that explains these curves best."""
    requests, _ = _fitted(curves, 0.0)
    # What a mixture of experts does alone is another thing than reading its weights.
    dense = [curve for curve in curves if not curve.is_moe]
    fitted = {each: _fitted(dense, each) for each in PER_PROMPT}
    scores = {
        each: likelihood - (log(each / ROOFLINE) / ROOFLINE_LOG_SD) ** 2 / 2
        for each, (_, likelihood) in fitted.items()
    }
    per_prompt = max(scores, key=scores.__getitem__)
    found = replace(
        requests,
        token_slope=fitted[per_prompt][0].slope,
        prompt_token=per_prompt,
        prompt_log_sd=ROOFLINE_LOG_SD,
    )
    beyond = [each for curve in curves for each in _beyond(curve, found)]
    return replace(found, beyond_sd=round(pstdev(beyond), 3))


def _fitted(curves: list[Curve], per_prompt: float) -> tuple[Prior, float]:
    """The best prior with this slope per prompt token, and its log likelihood."""
    names = {kind.name for kind in KINDS}
    even = (1 - BENT) / (len(names) - 1)
    kinds = {kind.name: BENT if kind.bend else even for kind in KINDS}
    prior = Prior(0.02, 0.0, 0.7, 0.0, 0.0, kinds, 0.0)
    likelihood = 0.0
    for _ in range(ROUNDS):
        shares = {name: SPREAD / len(kinds) for name in kinds}
        rest: list[tuple[float, float]] = []
        likelihood = 0.0
        for curve in curves:
            median = prior.slope + per_prompt * curve.prompt_ratio
            found, score = _responsible(curve, prior, median)
            likelihood += score
            for name, slope, probability in found:
                shares[name] += probability
                rest.append((log(slope / median), probability))
        total = sum(probability for _, probability in rest)
        off = sum(x * p for x, p in rest) / total
        spread = (sum(p * (x - off) ** 2 for x, p in rest) / total) ** 0.5
        straight = sum(v for name, v in shares.items() if name != "bend")
        prior = replace(
            prior,
            slope=round(max(1e-3, prior.slope * exp(off)), 5),
            slope_log_sd=round(max(LEAST_SPREAD, spread), 3),
            kinds={
                name: BENT if name == "bend" else round(v / straight * (1 - BENT), 4)
                for name, v in shares.items()
            },
        )
    return prior, likelihood


def _responsible(
    curve: Curve, prior: Prior, median: float
) -> tuple[list[tuple[str, float, float]], float]:
    """Kind, slope and probability of each candidate; and the curve's likelihood."""
    scored = []
    points = [(log(n / x), log_heights(n)) for n, x in curve.points]
    for i, shape in enumerate(prior.shapes()):
        z = [y - height[i] for y, height in points]
        middle = sum(z) / len(z)
        misfit = sum((each - middle) ** 2 for each in z) / SCATTER**2
        density = prior.log_density(shape.slope, median)
        scored.append((shape, shape.weight + density - misfit / 2))
    top = max(score for _, score in scored)
    weights = [exp(score - top) for _, score in scored]
    total = sum(weights)
    found = [
        (shape.kind.name, shape.slope, weight / total)
        for (shape, _), weight in zip(scored, weights, strict=True)
    ]
    return found, top + log(total) - log(prior.slope_log_sd)


def _beyond(curve: Curve, prior: Prior) -> list[float]:
    """Log of the true throughput over the one followed, per factor e."""
    found = []
    for share in SHARES:
        shown = [level * share * curve.limit for level in LEVELS]
        points = [
            Evidence(n, log(curve.service_time(n)), SCATTER**2) for n in shown if n >= 1
        ]
        known = explain(points, prior.log_weights(tokens=False))
        followed = known.throughput(curve.limit).mean
        found.append((log(curve.capacity) - followed) / -log(share))
    return found


if __name__ == "__main__":
    found = compute(load())
    FILE.write_text(json.dumps(vars(found), indent=1) + "\n", "utf-8")
    print(FILE.read_text("utf-8"), end="")
