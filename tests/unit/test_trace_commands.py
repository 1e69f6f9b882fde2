"""``record`` and ``replay`` in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar import trace
from sidecar.simulator import SimulatedWorker
from tests.unit.makers import FIXTURES
from tests.unit.running import run

SINE = FIXTURES / "traces" / "vllm-0.32.0-cpu-sine.csv"


class TestTraces:
    def test_replay_as_json_has_every_key_in_every_row(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("replay", str(SINE), "--output", "json") == 0

        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == len(list(trace.read(SINE)))
        assert {tuple(row) for row in rows} == {
            (
                "t_s",
                "state",
                "throughput",
                "demand",
                "capacity",
                "capacity_lower",
                "capacity_upper",
                "concurrency_limit",
                "utilization",
                "published",
            )
        }
        assert rows[0]["state"] == "baseline"
        assert rows[0]["capacity"] is None
        assert {row["state"] for row in rows} == {
            "baseline",
            "idle",
            "serving",
            "saturated",
        }

    def test_replay_with_the_seeds_estimator(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_ESTIMATOR", "rate")
        monkeypatch.setenv("SIDECAR_MULTIPLIER", "10")

        assert run("replay", str(SINE)) == 0

        last = capsys.readouterr().out.splitlines()[-1].split()
        # The lumps of single seconds latch: half as much again as it sustains.
        assert float(last[-1]) > 10 * 1.5 * 16.1

    def test_a_broken_trace(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "t.csv"
        path.write_text("t_s\n1\n")

        assert run("replay", str(path)) == 1

        assert capsys.readouterr().err.startswith(f"capacity-sidecar: {path}, line 1:")

    def test_record(
        self,
        worker: SimulatedWorker,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        path = tmp_path / "t.csv"
        arguments = ["--output", str(path), "--seconds", "0.3"]

        assert run("record", f"127.0.0.1:{worker.port}", *arguments) == 0

        rows = list(trace.read(path))
        assert 2 <= len(rows) <= 4
        assert all(row.sample for row in rows)
        assert "0 failed" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("target", "seconds", "code"),
        [("127.0.0.1:9", "0.1", 1), ("nowhere", "1", 2), ("127.0.0.1:9", "soon", 2)],
    )
    def test_record_what_cannot_be(
        self,
        target: str,
        seconds: str,
        code: int,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        arguments = ["--output", str(tmp_path / "t.csv"), "--seconds", seconds]

        assert run("record", target, *arguments) == code

        assert capsys.readouterr().err

    def test_record_to_a_place_that_is_not_there(
        self, worker: SimulatedWorker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = f"127.0.0.1:{worker.port}"

        assert run("record", target, "--output", "/nonexistent/t.csv") == 1

        assert "No such file" in capsys.readouterr().err
