"""``replay``: a recorded trace through the configured estimator, at full speed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sidecar import environment, plot, trace
from sidecar.errors import SettingsError, TraceError
from sidecar.estimators.knowledge import Knowledge
from sidecar.estimators.picture import picture
from sidecar.pipeline import Pipeline
from sidecar.plot.series import Row
from sidecar.reading import Values
from sidecar.signals import StopRequest
from sidecar.states import State

NUMBERS = (
    "throughput",
    "demand",
    "capacity",
    "capacity_lower",
    "capacity_upper",
    "concurrency_limit",
    "utilization",
    "published",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The trace, and the form of the output."""
    parser.add_argument("trace", type=Path, metavar="TRACE", help="as record writes it")
    parser.add_argument(
        "--output", choices=["text", "json"], help="text where nothing is plotted"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help=".png, .pdf or .svg")


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Print or plot what the rows of the trace lead to."""
    stop.uninstall()
    pipeline = Pipeline.configured(environment.load().settings, None)
    if options.plot is None:
        _print(_advance(pipeline, options.trace), options.output or "text")
        return 0
    # Before the work: whether it can be drawn at all.
    file_format = plot.file_format(options.plot)
    rows = tuple(_advance(pipeline, options.trace))
    if options.output:
        _print(rows, options.output)
    if not rows:
        raise TraceError(f"{options.trace}: no rows, so there is nothing to plot")
    known = pipeline.learning.state if pipeline.learning else None
    estimate = pipeline.estimate
    # Other estimators than the curve's have no curve.
    learned = picture(known, estimate) if isinstance(known, Knowledge) else None
    contents = plot.draw(
        plot.Replay(options.trace, rows, estimate, learned), file_format
    )
    try:
        options.plot.write_bytes(contents)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsError(f"--plot {options.plot}: {reason}") from None
    print(f"{options.plot}: written", file=sys.stderr)
    return 0


def _advance(pipeline: Pipeline, path: Path) -> Iterator[Row]:
    for row in trace.read(path):
        if row.sample is None:
            yield row.time, Values(State.UNREACHABLE)
        else:
            yield row.time, pipeline.advance(row.sample)


def _print(rows: Iterable[Row], output: str) -> None:
    heading = f"{'t_s':>10} {'state':12}" + "".join(f"{n:>18}" for n in NUMBERS)
    for time, values in rows:
        if heading and output == "text":
            print(heading)
            heading = ""
        print(_json(time, values) if output == "json" else _text(time, values))


def _json(time: float, values: Values) -> str:
    known: dict[str, Any] = asdict(values)
    numbers = {name: known[name] for name in NUMBERS}
    return json.dumps({"t_s": time, "state": str(values.state), **numbers})


def _text(time: float, values: Values) -> str:
    known = asdict(values)
    numbers = (known[name] for name in NUMBERS)
    cells = ("-" if value is None else f"{value:.3f}" for value in numbers)
    return f"{time:10.3f} {values.state!s:12}" + "".join(
        f"{cell:>18}" for cell in cells
    )
