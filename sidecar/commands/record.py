"""``record``: a worker's polls into a trace file."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sidecar import environment, fieldtypes, target, trace
from sidecar.errors import ScrapeError, SettingsError, TraceError
from sidecar.schedule import next_tick
from sidecar.scrape import Scraper
from sidecar.signals import StopRequest
from sidecar.trace import Row
from sidecar.worker import scraper


def configure(parser: argparse.ArgumentParser) -> None:
    """The worker, the file, and for how long."""
    parser.add_argument("target", metavar="TARGET", help="URL, host:port or port")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seconds", metavar="N", help="end by itself after so long")


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Write a row a poll until stopped; a failed poll is a row with the time only."""
    settings = environment.load().settings
    try:
        worker = scraper(target.parse(options.target), settings)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    try:
        limit = fieldtypes.seconds(options.seconds) if options.seconds else None
    except ValueError as error:
        raise SettingsError(f"--seconds {options.seconds!r} {error}") from None
    rows = failures = 0
    try:
        with options.output.open("w", encoding="utf-8", newline="") as file:
            columns = (*trace.COLUMNS, *trace.MORE_COLUMNS)
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            for row in _polls(worker, settings.poll_interval, limit, stop):
                rows, failures = rows + 1, failures + (row.sample is None)
                writer.writerow(trace.row(row.time, row.sample))
                file.flush()
    except OSError as error:
        raise TraceError(f"{options.output}: {error.strerror or error}") from None
    finally:
        worker.http.close()
    print(f"{options.output}: {rows} polls, {failures} failed", file=sys.stderr)
    return 1 if failures == rows else 0


def _polls(
    worker: Scraper, interval: float, limit: float | None, stop: StopRequest
) -> Iterator[Row]:
    """Polls in step with the clock, times from the first one on; says what changes."""
    started, trouble = time.monotonic(), ""
    while True:
        try:
            sample = worker.read()
            yield Row(sample.at - started, sample)
            trouble = ""
        except ScrapeError as error:
            yield Row(time.monotonic() - started, None)
            if error.reason != trouble:
                print(f"no reading: {error}", file=sys.stderr)
            trouble = error.reason
        now = time.monotonic()
        due = next_tick(started, interval, now)
        if (limit is not None and due - started > limit) or stop.wait(due - now):
            return
