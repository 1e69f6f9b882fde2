"""``replay``: a recorded trace through the configured estimator, at full speed."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sidecar import environment, trace
from sidecar.pipeline import Pipeline
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
    parser.add_argument("--output", choices=["text", "json"], default="text")


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Print what each row of the trace leads to."""
    stop.uninstall()
    pipeline = Pipeline.configured(environment.load().settings, None)
    heading = f"{'t_s':>10} {'state':12}" + "".join(f"{n:>18}" for n in NUMBERS)
    for row in trace.read(options.trace):
        if heading and options.output == "text":
            print(heading)
            heading = ""
        if row.sample is None:
            values = Values(State.UNREACHABLE)
        else:
            values = pipeline.advance(row.sample)
        print(
            _json(row.time, values)
            if options.output == "json"
            else _text(row.time, values)
        )
    return 0


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
