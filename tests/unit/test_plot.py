"""``replay --plot``: the file, and every way that it cannot be written."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path

import pytest

from sidecar import trace
from tests.unit.makers import FIXTURES
from tests.unit.running import run

SINE = FIXTURES / "traces" / "vllm-0.32.0-cpu-sine.csv"
HEADER = ",".join(trace.COLUMNS)
OVER_TIME, WITH_CURVE = 4, 6


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_MAX_CONCURRENCY", "16")


def panels(path: Path) -> int:
    return len(re.findall(r'id="axes_\d+"', path.read_text("utf-8")))


def start_of_sine(path: Path, rows: int) -> Path:
    lines = SINE.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: 1 + rows]), "utf-8")
    return path


class TestTheFile:
    def test_png_of_the_promised_size(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "out.PNG"

        assert run("replay", str(SINE), "--plot", str(path)) == 0

        contents = path.read_bytes()
        assert contents.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", contents[16:24]) == (1440, 960)
        out = capsys.readouterr()
        assert (out.out, out.err) == ("", f"{path}: written\n")

    def test_pdf(self, tmp_path: Path) -> None:
        path = tmp_path / "out.pdf"

        assert run("replay", str(SINE), "--plot", str(path)) == 0

        assert path.read_bytes().startswith(b"%PDF-")

    def test_rows_are_printed_where_they_are_asked_for(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = start_of_sine(tmp_path / "t.csv", 30)
        assert run("replay", str(given), "--output", "json") == 0
        without = capsys.readouterr().out
        path = tmp_path / "out.svg"

        plotted = ["--plot", str(path), "--output", "json"]
        assert run("replay", str(given), *plotted) == 0

        assert capsys.readouterr().out == without
        assert len([json.loads(line) for line in without.splitlines()]) == 30
        assert path.exists()


class TestPanels:
    def test_the_curve_beside_the_rest(self, tmp_path: Path) -> None:
        path = tmp_path / "out.svg"

        assert run("replay", str(SINE), "--plot", str(path)) == 0

        assert panels(path) == WITH_CURVE

    def test_an_estimator_without_a_curve(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SIDECAR_ESTIMATOR", "rate")
        path = tmp_path / "out.svg"

        assert run("replay", str(SINE), "--plot", str(path)) == 0

        assert panels(path) == OVER_TIME

    @pytest.mark.parametrize("rows", [1, 8])
    def test_a_trace_too_short_to_learn_from(self, rows: int, tmp_path: Path) -> None:
        given = start_of_sine(tmp_path / "t.csv", rows)
        path = tmp_path / "out.svg"

        assert run("replay", str(given), "--plot", str(path)) == 0

        assert panels(path) == OVER_TIME

    def test_a_limit_far_beyond_the_load(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SIDECAR_MAX_CONCURRENCY")
        given = start_of_sine(tmp_path / "t.csv", 60)
        path = tmp_path / "out.svg"

        assert run("replay", str(given), "--plot", str(path)) == 0

        assert panels(path) == WITH_CURVE

    def test_hours_with_failed_polls(self, tmp_path: Path) -> None:
        given, path = tmp_path / "t.csv", tmp_path / "out.svg"
        rows = [
            f"{60 * i},{60 * i},2,0,0.1,{600 * i},{600 * i},0"
            if i % 50
            else f"{60 * i}" + "," * 7
            for i in range(300)
        ]
        given.write_text("\n".join([HEADER, *rows]), "utf-8")

        assert run("replay", str(given), "--plot", str(path)) == 0

        assert panels(path) == WITH_CURVE

    def test_a_name_that_looks_like_a_formula(self, tmp_path: Path) -> None:
        given = start_of_sine(tmp_path / "a$\\frac$_{.csv", 30)

        assert run("replay", str(given), "--plot", str(tmp_path / "out.png")) == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("out.doc", "the name must end in one of ."),
            ("out", "the name must end in one of"),
            ("nowhere/out.png", "No such file or directory"),
            ("folder.png", "Is a directory"),
        ],
    )
    def test_a_file_that_cannot_be(
        self,
        name: str,
        reason: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        (tmp_path / "folder.png").mkdir()
        given = start_of_sine(tmp_path / "t.csv", 30)

        assert run("replay", str(given), "--plot", str(tmp_path / name)) == 2

        (said,) = capsys.readouterr().err.splitlines()
        assert said.startswith(f"capacity-sidecar: --plot {tmp_path / name}: {reason}")

    def test_without_matplotlib(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

        assert run("replay", str(SINE), "--plot", str(tmp_path / "out.png")) == 2

        assert capsys.readouterr().err == (
            "capacity-sidecar: --plot needs matplotlib: "
            "pip install 'capacity-sidecar[plot]'\n"
        )

    def test_an_empty_trace(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given, path = tmp_path / "t.csv", tmp_path / "out.png"
        given.write_text(f"{HEADER}\n", "utf-8")

        assert run("replay", str(given), "--plot", str(path)) == 1

        said = f"capacity-sidecar: {given}: no rows, so there is nothing to plot\n"
        assert capsys.readouterr().err == said
        assert not path.exists()
