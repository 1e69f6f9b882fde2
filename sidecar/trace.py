"""Recorded traces: a CSV file with one row a poll."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sidecar.engines.base import (
    CACHED_TOKENS,
    DECODE_SECONDS,
    DECODE_TOKENS,
    GENERATION_TOKENS,
    LARGEST,
    PREEMPTIONS,
    PREFILL_SECONDS,
    PROMPT_TOKENS,
)
from sidecar.errors import TraceError
from sidecar.sample import Sample, Series

TIME = "t_s"
FINISHED = "request_success_total"
RUNNING = "num_requests_running"
WAITING = "num_requests_waiting"
KV_USAGE = "kv_cache_usage_perc"
_COUNTERS = {
    "generation_tokens_total": GENERATION_TOKENS,
    "prompt_tokens_total": PROMPT_TOKENS,
    "preemptions_total": PREEMPTIONS,
}
COLUMNS = (TIME, FINISHED, RUNNING, WAITING, KV_USAGE, *_COUNTERS)
"""A trace has these."""

KV_TOKENS, KV_LONGEST = "kv_cache_size_tokens", "kv_cache_max_concurrency"
_MORE_COUNTERS = {
    "prompt_tokens_cached_total": CACHED_TOKENS,
    "inter_token_latency_seconds_sum": DECODE_SECONDS,
    "inter_token_latency_seconds_count": DECODE_TOKENS,
    "request_prefill_time_seconds_sum": PREFILL_SECONDS,
}
_ALL_COUNTERS = _COUNTERS | _MORE_COUNTERS
MORE_COLUMNS = (*_MORE_COUNTERS, KV_TOKENS, KV_LONGEST)
"""And these, where the worker has them: the estimate is the better for it."""


@dataclass(frozen=True)
class Row:
    """One poll: when, and what it gave; None: the poll failed."""

    time: float
    sample: Sample | None


def read(path: Path) -> Iterator[Row]:
    """The rows of a trace, in order. Columns beyond ours are ignored.

    Raises:
        TraceError: with file, line and column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, csv.DictReader(file, strict=True))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not UTF-8 text; a trace is a CSV file") from None


def row(time: float, sample: Sample | None) -> dict[str, str]:
    """One row to write; what the worker does not export stays empty."""
    values: dict[str, float | None] = {TIME: round(time, 3)}
    if sample is not None:
        values |= {
            FINISHED: sample.completed_total,
            RUNNING: sample.running,
            WAITING: sample.waiting,
            KV_USAGE: sample.kv_usage,
            KV_TOKENS: sample.kv_tokens,
            KV_LONGEST: sample.kv_longest,
        }
        values |= {column: sample.total(ours) for column, ours in _ALL_COUNTERS.items()}
    found = ((column, values.get(column)) for column in (*COLUMNS, *MORE_COLUMNS))
    return {column: "" if v is None else f"{v:.15g}" for column, v in found}


def _rows(path: Path, lines: csv.DictReader[str]) -> Iterator[Row]:
    try:
        present = lines.fieldnames or ()
        missing = [column for column in COLUMNS if column not in present]
        if missing:
            msg = f"{path}, line 1: no column {missing[0]}; a trace has"
            raise TraceError(f"{msg} {', '.join(COLUMNS)}")
        last = float("-inf")
        for fields in lines:
            cells = _Cells(path, lines.line_num, fields)
            time = cells.required(TIME)
            if time <= last:
                raise cells.wrong(TIME, "is not later than the row before")
            last = time
            yield Row(time, cells.sample(time))
    except csv.Error as error:
        # The reader counts a line when it is through with it.
        raise TraceError(f"{path}, line {lines.line_num + 1}: {error}") from None


@dataclass(frozen=True)
class _Cells:
    path: Path
    line: int
    fields: dict[str, str | None]

    def sample(self, time: float) -> Sample | None:
        """The sample of the row; None where it records a failed poll."""
        finished, running = self.number(FINISHED), self.number(RUNNING)
        if finished is None and running is None:
            return None
        counters: dict[str, Series] = {
            ours: {(): value}
            for column, ours in _ALL_COUNTERS.items()
            if (value := self.number(column)) is not None
        }
        return Sample(
            at=time,
            engine="trace",
            model_name=self.path.stem,
            running=self.required(RUNNING),
            finished={(): self.required(FINISHED)},
            waiting=self.number(WAITING),
            counters=counters,
            kv_usage=self.number(KV_USAGE),
            kv_tokens=self.number(KV_TOKENS),
            kv_longest=self.number(KV_LONGEST),
        )

    def required(self, column: str) -> float:
        value = self.number(column)
        if value is None:
            raise self.wrong(column, "is empty")
        return value

    def number(self, column: str) -> float | None:
        if column in MORE_COLUMNS and column not in self.fields:
            return None
        text = self.fields[column]
        if text is None:
            raise self.wrong(column, "is missing: the row is too short")
        if not text.strip():
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(column, f"is {text!r}, not a number") from None
        if not 0 <= value <= LARGEST:
            raise self.wrong(column, f"is {text!r}, not a finite number from 0 up")
        return value

    def wrong(self, column: str, reason: str) -> TraceError:
        return TraceError(f"{self.path}, line {self.line}, column {column}: {reason}")
