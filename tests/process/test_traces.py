from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from sidecar import trace
from sidecar.simulator import SimulatedWorker
from tests.process.commands import Finished, run, run_all, sentences, start
from tests.process.conftest import Ports
from tests.process.waiting import until
from tests.process.workers import RATE

pytestmark = pytest.mark.process

HEADER = ",".join(trace.COLUMNS)
GOOD = "1,100,2,0,0.1,1000,100,0"

# What is in the file, and what the sentence about it must name.
BROKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "no-column": (
        f"{HEADER.replace('num_requests_running', 'running')}\n{GOOD}\n",
        ("line 1", "no column num_requests_running"),
    ),
    "no-number": (
        f"{HEADER}\n{GOOD}\n2,many,2,0,0.1,1000,100,0\n",
        ("line 3", "column request_success_total", "'many'"),
    ),
    "half-empty": (
        f"{HEADER}\n1,100,,0,0.1,1000,100,0\n",
        ("line 2", "column num_requests_running", "empty"),
    ),
    "short": (
        f"{HEADER}\n{GOOD}\n2,110,2,0,0.2,1100,110\n",
        ("line 3", "column preemptions_total", "too short"),
    ),
    "backwards": (f"{HEADER}\n{GOOD}\n{GOOD}\n", ("line 3", "column t_s", "later")),
    "half-quoted": (f'{HEADER}\n"1"x,100,2,0,0.1,1000,100,0\n', ("line 2",)),
    "no-text": ("\udcff\udcfe", ("not UTF-8",)),
}


def replayed(finished: Finished) -> list[dict[str, Any]]:
    assert (finished.returncode, finished.stderr) == (0, "")
    return [json.loads(line) for line in finished.stdout.splitlines()]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_recorded_trace_can_be_replayed(
    worker: SimulatedWorker, tmp_path: Path
) -> None:
    path = tmp_path / "trace.csv"

    recorded = run(
        *("record", worker.url, "--output", str(path), "--seconds", "3"),
        SIDECAR_POLL_INTERVAL="200ms",
    )

    written = rows(path)
    said = f"{path}: {len(written)} polls, 0 failed"
    assert sentences(recorded.stderr) == [said]
    assert (recorded.returncode, recorded.stdout) == (0, "")
    assert 8 <= len(written) <= 16
    out = replayed(run("replay", str(path), "--output", "json"))
    assert [line["t_s"] for line in out] == [float(row["t_s"]) for row in written]
    assert out[0]["state"] == "baseline"
    assert {line["state"] for line in out[1:]} == {"serving"}
    first, last = written[0], written[-1]
    done, time = (
        float(last[column]) - float(first[column])
        for column in ("request_success_total", "t_s")
    )
    assert done / time == pytest.approx(RATE, rel=0.3)
    assert out[-1]["throughput"] == pytest.approx(done / time, rel=0.3)
    assert out[-1]["published"] > out[-1]["throughput"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_record_until_stopped_with_a_gap(
    worker: SimulatedWorker, tmp_path: Path, signum: int
) -> None:
    path = tmp_path / "trace.csv"
    process = start(
        ["record", worker.url, "--output", str(path)], {"SIDECAR_POLL_INTERVAL": "0.1"}
    )

    def finished() -> list[str]:
        """The column of completions so far."""
        written = path.read_text().splitlines() if path.exists() else []
        return [row["request_success_total"] for row in csv.DictReader(written)]

    with process:
        until(lambda: len(finished()) > 2, "rows are written")
        worker.stop()
        until(lambda: "" in finished(), "failed polls are rows without numbers")
        worker.start()
        until(lambda: finished()[-1:] not in ([], [""], [None]), "good rows come again")
        process.send_signal(signum)
        _, err = process.communicate(timeout=10)

    assert process.returncode == 0
    assert f"{path}: {len(rows(path))} polls" in sentences(err)[-1]
    states = [
        line["state"] for line in replayed(run("replay", str(path), "--output", "json"))
    ]
    assert states[0] == "baseline"
    assert "unreachable" in states
    assert states[-1] == "serving"


def test_record_that_fails(
    worker: SimulatedWorker, tmp_path: Path, free_port: Ports
) -> None:
    nothing = f"127.0.0.1:{free_port()}"
    silent, nowhere, full = run_all(
        ["record", nothing, "--output", str(tmp_path / "x.csv"), "--seconds", "0.2"],
        ["record", worker.url, "--output", "/nonexistent/x.csv", "--seconds", "0.2"],
        ["record", worker.url, "--output", "/dev/full", "--seconds", "0.2"],
        SIDECAR_POLL_INTERVAL="100ms",
    )

    assert [p.returncode for p in (silent, nowhere, full)] == [1, 1, 1]
    assert "refuses connections" in sentences(silent.stderr)[0]
    assert sentences(nowhere.stderr) == [
        "capacity-sidecar: /nonexistent/x.csv: No such file or directory"
    ]
    assert sentences(full.stderr) == [
        "capacity-sidecar: /dev/full: No space left on device"
    ]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """Every broken trace replayed, all at once."""
    directory = tmp_path_factory.mktemp("traces")
    for name, (text, _) in BROKEN.items():
        path = directory / f"{name}.csv"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    paths = [str(directory / f"{name}.csv") for name in BROKEN]
    return dict(
        zip(BROKEN, run_all(*(["replay", path] for path in paths)), strict=True)
    )


@pytest.mark.parametrize("name", BROKEN)
def test_broken_trace(refusals: dict[str, Finished], name: str) -> None:
    refused = refusals[name]

    (said,) = sentences(refused.stderr)

    assert said.startswith("capacity-sidecar: ")
    parts = (f"{name}.csv", *BROKEN[name][1])
    assert [part for part in parts if part not in said] == [], said
    assert refused.returncode == 1


def test_trace_that_is_not_there(tmp_path: Path) -> None:
    missing, folder = run_all(
        ["replay", str(tmp_path / "x.csv")], ["replay", str(tmp_path)]
    )

    assert (missing.returncode, folder.returncode) == (1, 1)
    assert sentences(missing.stderr) == [
        f"capacity-sidecar: {tmp_path / 'x.csv'}: No such file or directory"
    ]
    assert sentences(folder.stderr) == [f"capacity-sidecar: {tmp_path}: Is a directory"]
