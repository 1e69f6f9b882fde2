"""``record``: a worker's polls into a trace file."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

from sidecar import environment, fieldtypes, target, trace
from sidecar.errors import ScrapeError, SettingsError, TraceError
from sidecar.sample import Sample
from sidecar.schedule import next_tick
from sidecar.signals import StopRequest
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
        limit = fieldtypes.seconds(options.seconds) if options.seconds else None
    except ValueError as error:
        raise SettingsError(str(error)) from None
    try:
        file = options.output.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise TraceError(f"{options.output}: {error.strerror or error}") from None
    rows = failures = 0
    with file:
        writer = csv.DictWriter(file, trace.COLUMNS, lineterminator="\n")
        writer.writeheader()
        started = time.monotonic()
        while True:
            sample: Sample | None = None
            try:
                sample = worker.read()
            except ScrapeError as error:
                failures += 1
                if failures == 1:
                    print(f"no reading: {error}", file=sys.stderr)
            at = (sample.at if sample else time.monotonic()) - started
            try:
                writer.writerow(trace.row(at, sample))
                file.flush()
            except OSError as error:
                raise TraceError(f"{options.output}: {error.strerror}") from None
            rows += 1
            now = time.monotonic()
            due = next_tick(started, settings.poll_interval, now)
            if limit is not None and due - started > limit:
                break
            if stop.wait(due - now):
                break
    print(f"{options.output}: {rows} polls, {failures} failed", file=sys.stderr)
    return 1 if failures == rows else 0
