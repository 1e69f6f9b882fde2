"""That prometheus-adapter tells an HPA of a pod what is in it, by promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.packaging.adapter import query
from tests.process.debian import binary

FRESH, OLD = "-90+30x10", "90x10"
"""When a worker was read; at four minutes 90 and 150 seconds ago."""


def _worker(pod: str, labels: str, value: float, read: str = FRESH) -> list[str]:
    """The input of a worker's two series."""
    labels = f'namespace="llm",pod="{pod}",{labels}'
    return [
        f"llm_worker_reading_timestamp_seconds{{{labels}}} {read}",
        f"llm_worker_utilization{{{labels}}} {value}x10",
    ]


class TestQuery:
    @pytest.mark.parametrize(
        ("series", "expected"),
        [
            pytest.param(_worker("a", 'tag="m",worker="a"', 0.5), 0.5, id="a pod"),
            pytest.param(
                _worker("a", 'tag="m",worker="a:8000"', 0.5)
                + _worker("a", 'tag="m",worker="a:8001"', 0.25),
                0.75,
                id="two workers are added up",
            ),
            pytest.param(
                _worker("a", 'tag="m",worker="a"', 0.5)
                + _worker("a", 'tag="n",worker="a"', 0.25),
                0.75,
                id="two models are added up",
            ),
            pytest.param(
                _worker("a", 'tag="m",worker="a",instance="1"', 0.5)
                + _worker("a", 'tag="m",worker="a",instance="2"', 0.25),
                0.5,
                id="scraped twice it counts once",
            ),
            pytest.param(
                _worker("a", 'tag="m",worker="a"', 0.5, OLD), None, id="an old reading"
            ),
            pytest.param(
                _worker("a", 'tag="m",worker="a"', 0.5)
                + _worker("a", 'tag="m",worker="b"', 0.25, OLD),
                0.5,
                id="one old reading",
            ),
            pytest.param(
                _worker("other", 'tag="m",worker="a"', 0.5), None, id="another pod"
            ),
        ],
    )
    def test_a_pod_is_what_its_workers_are_now(
        self, series: list[str], expected: float | None, tmp_path: Path
    ) -> None:
        found = {"labels": '{pod="a"}', "value": expected}
        samples = [] if expected is None else [found]
        test = {
            "interval": "30s",
            "input_series": [
                dict(zip(("series", "values"), each.split(" "), strict=True))
                for each in series
            ],
            "promql_expr_test": [
                {"expr": query(["a", "b"]), "eval_time": "4m", "exp_samples": samples}
            ],
        }
        path = tmp_path / "test.yaml"
        path.write_text(yaml.safe_dump({"tests": [test]}), "utf-8")
        promtool = binary("promtool", "prometheus")

        ran = subprocess.run(
            [promtool, "test", "rules", path], capture_output=True, text=True
        )

        assert ran.returncode == 0, ran.stdout + ran.stderr
