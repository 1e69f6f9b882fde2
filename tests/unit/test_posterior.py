from __future__ import annotations

from collections.abc import Callable
from math import exp, log

import pytest

from sidecar.estimators.evidence import Evidence, evidence
from sidecar.estimators.posterior import LogNormal, Posterior, explain
from sidecar.estimators.prompts import PromptCost
from sidecar.estimators.shapes import candidates, log_heights, log_weights, prior
from sidecar.estimators.work import Unit, Work
from tests.accuracy import curves
from tests.accuracy.prior import compute
from tests.unit.line_worker import LIMIT, TRUTH, service_time

REQUESTS = log_weights(tokens=False)


def seen(levels: list[float], time: Callable[[float], float]) -> list[Evidence]:
    return [Evidence(n, log(time(n)), 2e-4) for n in levels]


def slope(known: Posterior) -> float:
    return exp(sum(line.probability * log(line.shape.slope) for line in known.lines))


class TestPosterior:
    def test_one_level_leaves_the_slope_to_the_prior(self) -> None:
        known = explain([Evidence(8, log(service_time(8)), 0.05)], REQUESTS)

        assert slope(known) == pytest.approx(prior().slope, rel=0.15)

    def test_levels_far_apart_find_the_slope(self) -> None:
        known = explain(seen([2, 4, 8, 16, 32, 64], service_time), REQUESTS)

        assert sum(line.probability for line in known.lines) == pytest.approx(1)
        assert known.throughput(LIMIT).median == pytest.approx(TRUTH, rel=0.03)
        assert known.alpha == pytest.approx(service_time(0), rel=0.1)

    def test_a_bend_is_believed_when_it_is_shown(self) -> None:
        """Experts wake one after the other: a line through low loads is too steep."""

        def bent(n: float) -> float:
            return float(1 + 0.01 * n + 2 * (1 - (1 - 1 / 16) ** n))

        levels = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        known = explain(seen(levels, bent), REQUESTS)

        assert known.bent > 0.9
        assert explain(seen(levels, service_time), REQUESTS).bent < 0.1
        assert known.throughput(128).median == pytest.approx(128 / bent(128), rel=0.15)

    def test_nothing_is_known_of_nothing(self) -> None:
        known = explain([], REQUESTS)

        assert known == Posterior()
        assert known.alpha is None
        assert known.kept == ()

    def test_what_was_known_of_the_shape_can_be_kept_without_the_level(self) -> None:
        before = explain(seen([2, 8, 32, 64], service_time), REQUESTS)

        after = explain(
            [Evidence(8, log(4 * service_time(8)), 0.01)], REQUESTS, before.kept
        )

        assert after.throughput(LIMIT).median == pytest.approx(TRUTH / 4, rel=0.15)

    def test_prompts_cost_what_they_cost(self) -> None:
        known = explain(seen([2, 8, 32, 64], service_time), REQUESTS)

        with_prompts = known.throughput(LIMIT, 0.05).median

        assert 1 / with_prompts == pytest.approx(
            1 / known.throughput(LIMIT).median + 0.05, rel=0.01
        )

    def test_the_table_of_heights_is_fine_enough(self) -> None:
        for n in (1.0, 3.21, 77.7, 256.0):
            for shape, height in zip(candidates(), log_heights(n), strict=True):
                kind = shape.kind
                rise = kind.bend * (1 - (1 - kind.awake) ** n)
                exact = kind.power * log(1 + shape.slope * n + rise)
                assert height == pytest.approx(exact, abs=0.006)


class TestPrior:
    @pytest.mark.slow
    def test_the_file_is_what_the_curves_say(self) -> None:
        """Write it anew with `make prior`."""
        assert vars(prior()) == vars(compute(curves.load()))


class TestLogNormal:
    def test_precision_weighs(self) -> None:
        both = LogNormal(log(10), 0.1).combined(LogNormal(log(20), 0.2))

        assert both.median == pytest.approx(10 * 2 ** (1 / 5))
        assert both.sd < 0.1

    def test_the_harmonic_mean_gives_the_right_number_of_workers(self) -> None:
        """1 / E[1/x] of x = e^z, z normal, by a sum over its quantiles."""
        x = LogNormal(log(10), 0.5)
        steps = [-5 + i / 100 for i in range(1001)]
        weights = [exp(-z * z / 2) for z in steps]
        mean = sum(
            weight / x.quantile(z) for z, weight in zip(steps, weights, strict=True)
        )

        assert x.harmonic == pytest.approx(sum(weights) / mean, rel=1e-3)


class TestEvidence:
    def work(self, **given: float) -> Work:
        known = {"seconds": 60.0, "area": 240.0, "seen": 1200.0, "units": 6000.0}
        return Work(
            **{**known, "completions": 60, "polls": 12, "readings": 48, **given}
        )

    def test_a_request_s_time_is_the_area_over_the_count(self) -> None:
        found = evidence(self.work(units=60.0), Unit.REQUEST, PromptCost())

        assert found is not None
        assert exp(found.log_time) == pytest.approx(4.0, rel=0.01)
        assert found.concurrency == 5.0
        assert found.variance > 1 / 60

    def test_time_that_prompts_took_is_not_the_token_s(self) -> None:
        """A tenth of the time goes to prompts: 1000 tokens/s of 0.1 ms each."""
        work = self.work(prompts=60_000.0)

        found = evidence(work, Unit.DECODED_TOKEN, PromptCost(1e-4, 0.3))

        assert found is not None
        assert exp(found.log_time) == pytest.approx(0.9 * 240 / 6000)

    def test_where_the_gauge_counts_prefills_they_come_off_as_well(self) -> None:
        work = self.work(prompts=6_000.0)

        found = evidence(work, Unit.TOKEN, PromptCost(1e-4, 0.3))

        assert found is not None
        assert exp(found.log_time) == pytest.approx(0.99 * 240 / 6000 - 1e-4)

    def test_no_area_and_no_units_say_nothing(self) -> None:
        assert evidence(self.work(area=0.0), Unit.TOKEN, PromptCost()) is None
        assert evidence(self.work(units=0.0), Unit.TOKEN, PromptCost()) is None
