from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import trace
from sidecar.engines.base import (
    CACHED_TOKENS,
    DECODE_SECONDS,
    DECODE_TOKENS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFILL_SECONDS,
    PROMPT_TOKENS,
)
from sidecar.errors import TraceError
from tests.unit.makers import FIXTURES, sample

COUNTERS = (
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    PREEMPTIONS,
    DECODE_SECONDS,
    DECODE_TOKENS,
    PREFILL_SECONDS,
)
HEAD = ",".join(trace.COLUMNS)


def write(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


class TestReading:
    @pytest.mark.parametrize("name", ["sweep", "sine"])
    def test_the_recordings_of_a_real_vllm(self, name: str) -> None:
        rows = list(trace.read(FIXTURES / "traces" / f"vllm-0.32.0-cpu-{name}.csv"))

        assert len(rows) > 200
        assert all(row.sample for row in rows)

    def test_empty_is_what_the_worker_does_not_export(self, tmp_path: Path) -> None:
        (row,) = trace.read(write(tmp_path, HEAD, "1,5,2,,,,,"))

        assert row.sample is not None
        assert (row.sample.completed_total, row.sample.running) == (5, 2)
        assert row.sample.waiting is None
        assert row.sample.counters == {}

    def test_a_row_with_the_time_only_is_a_failed_poll(self, tmp_path: Path) -> None:
        (row,) = trace.read(write(tmp_path, HEAD, "1,,,,,,,"))

        assert row.sample is None

    def test_what_is_written_is_read_again(self, tmp_path: Path) -> None:
        counters = {
            name: {(): float(value)} for value, name in enumerate(COUNTERS, start=1)
        }
        written = sample(
            3.5,
            7,
            2,
            counters=counters,
            waiting=1.0,
            kv_usage=0.25,
            kv_tokens=65536.0,
            kv_longest=12.5,
        )
        row = trace.row(3.5, written)

        (found,) = trace.read(write(tmp_path, ",".join(row), ",".join(row.values())))

        assert found.sample is not None
        assert found.time == 3.5
        assert found.sample.completed_total == 7
        assert found.sample.counters == counters
        assert found.sample.kv_usage == 0.25
        assert found.sample.kv_tokens == 65536
        assert found.sample.kv_longest == 12.5


class TestErrors:
    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            ([], "line 1: no column t_s"),
            (["t_s,x"], "line 1: no column request_success_total"),
            ([HEAD, "1,5,2,,,,"], "line 2, column preemptions_total: is missing"),
            ([HEAD, "1,x,2,,,,,"], "line 2, column request_success_total: is 'x'"),
            ([HEAD, "1,-5,2,,,,,"], "from 0 up"),
            ([HEAD, "1,nan,2,,,,,"], "finite"),
            ([HEAD, "1,1e300,2,,,,,"], "column request_success_total: is '1e300'"),
            ([HEAD, "1,5,inf,,,,,"], "column num_requests_running: is 'inf'"),
            ([HEAD, "1,5,,,,,,"], "column num_requests_running: is empty"),
            ([HEAD, ",5,2,,,,,"], "column t_s: is empty"),
            ([HEAD, "1,5,2,,,,,", "1,5,2,,,,,"], "line 3, column t_s: is not later"),
            ([HEAD, '1,"5"x,2,,,,,'], "line 2: "),
        ],
    )
    def test_file_line_and_column(
        self, lines: list[str], words: str, tmp_path: Path
    ) -> None:
        path = write(tmp_path, *lines)

        with pytest.raises(TraceError) as caught:
            list(trace.read(path))

        assert str(caught.value).startswith(f"{path}, line ")
        assert words in str(caught.value)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(TraceError, match="No such file"):
            list(trace.read(tmp_path / "none.csv"))

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(TraceError, match="directory"):
            list(trace.read(tmp_path))

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv"
        path.write_bytes(b"\xff\xfe\x00")

        with pytest.raises(TraceError, match="UTF-8"):
            list(trace.read(path))
