from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from sidecar import trace
from sidecar.simulator import SimulatedWorker
from tests.process.commands import finish, sentences, start
from tests.process.conftest import StartDaemon
from tests.process.waiting import until
from tests.process.workers import SIGNAL

pytestmark = pytest.mark.process


@contextmanager
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe from which nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def full_disk() -> Iterator[int]:
    """A file on which nothing can be written."""
    with Path("/dev/full").open("wb") as file:
        yield file.fileno()


@pytest.fixture
def long_trace(tmp_path: Path) -> str:
    """A trace whose replay is more than a pipe holds."""
    path = tmp_path / "trace.csv"
    rows = (f"{at},{100 * at},2,0,0.1,{1000 * at},{100 * at},0" for at in range(3000))
    path.write_text("\n".join([",".join(trace.COLUMNS), *rows]))
    return str(path)


def test_reader_that_has_seen_enough(long_trace: str) -> None:
    process = start(["replay", long_trace], {})
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    ended = finish(process)

    assert first.split()[:2] == ["t_s", "state"]
    assert sentences(ended.stderr) == []
    assert ended.returncode == 0


def test_commands_whose_output_goes_nowhere(
    worker: SimulatedWorker, long_trace: str
) -> None:
    settings = {"SIDECAR_TARGETS": worker.url, "SIDECAR_POLL_INTERVAL": "200ms"}
    # Little enough to be written at the end only, and too much for that.
    short, long = ["once", "--output", "json"], ["replay", long_trace]
    with closed_pipe() as closed, full_disk() as full:
        started = [
            start(command, settings, stdout=stream)
            for stream in (closed, full)
            for command in (short, long)
        ]
        ended = [finish(process) for process in started]

    said = [
        [text for text in sentences(p.stderr) if text.startswith("capacity-sidecar")]
        for p in ended
    ]
    lost = ["capacity-sidecar: standard output: No space left on device"]
    assert said == [[], [], lost, lost]
    assert [p.returncode for p in ended] == [0, 0, 1, 1]


@pytest.mark.parametrize("nowhere", [closed_pipe, full_disk])
def test_daemon_whose_output_goes_nowhere(
    worker: SimulatedWorker,
    start_daemon: StartDaemon,
    nowhere: Callable[[], AbstractContextManager[int]],
) -> None:
    with nowhere() as stream:
        daemon = start_daemon(
            stdout=stream,
            stderr=stream,
            SIDECAR_TARGETS=worker.url,
            SIDECAR_SINKS="prometheus,stdout",
        ).wait_for_page()
        daemon.wait_for("sidecar_polls_total", outcome="ok", above=5)
        daemon.wait_for("sidecar_dropped_total", sink="stdout", reason="closed")
        worker.stop()
        daemon.wait_for("sidecar_polls_total", outcome="refused", above=2)
        worker.start()
        until(lambda: daemon.value(SIGNAL) > 1, "readings on the own page")

        status, seconds = daemon.end()
    assert status == 0
    assert seconds < 2
