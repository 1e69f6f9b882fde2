"""``once``: two polls one interval apart, one publication."""

from __future__ import annotations

import argparse
import os
import sys

from sidecar import discovery, environment, log, sinks
from sidecar.agent import Agent
from sidecar.commands import report
from sidecar.errors import SinkError
from sidecar.signals import StopRequest
from sidecar.sinks.base import translating
from sidecar.telemetry import Telemetry


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether to send, and the form of the output."""
    parser.add_argument("--dry-run", action="store_true", help="send nothing")
    parser.add_argument("--output", choices=["text", "json"], default="text")


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Poll, wait an interval, poll, publish; 1 when there was nothing to publish."""
    settings = environment.load().settings
    discovery.refuse_bad_variables(settings, os.environ)
    used = [sinks.build(name, settings) for name in sinks.chosen(settings)]
    # What the log would say is said below.
    quiet = settings.model_copy(update={"log_level": "error"})
    agent = Agent(settings, [], Telemetry(), log.logger(quiet))
    try:
        agent.tick()
        if not agent.workers:
            print("no worker found; capacity-sidecar check tells more", file=sys.stderr)
            return 1
        if stop.wait(settings.poll_interval):
            return 0
        readings = agent.tick()
    finally:
        agent.stop(0.0)
    failed = False
    for reading in readings if options.output == "json" else ():
        print(report.as_json(reading))
    for line in report.as_text(readings) if options.output == "text" else ():
        print(line)
    for worker in agent.workers:
        if worker.error is not None:
            failed = True
            print(f"{worker.target.url}: {worker.error}", file=sys.stderr)
    for sink in used if readings and not options.dry_run else ():
        try:
            # The own page and standard output end with this process.
            if sink.interval > 0:
                with translating():
                    sink.publish(readings)
        except SinkError as error:
            failed = True
            print(f"{sink.name}: {error}", file=sys.stderr)
        finally:
            sink.close()
    return 1 if failed or not readings else 0
