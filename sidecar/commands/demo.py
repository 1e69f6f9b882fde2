"""``demo``: a simulated worker under rising and falling load, the sidecar beside it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from prometheus_client import disable_created_metrics

from sidecar import environment, fieldtypes, log
from sidecar.agent import Agent
from sidecar.commands.simulate import simulated
from sidecar.errors import SettingsError
from sidecar.service import Service
from sidecar.signals import StopRequest
from sidecar.target import OWN_PAGE

LINE_EVERY = 3.0
POLL_INTERVAL = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """For how long, and where the page is."""
    parser.add_argument(
        "--seconds", default="120", metavar="N", help="how long it takes (120)"
    )
    parser.add_argument(
        "--listen", default=OWN_PAGE, metavar="ADDRESS", help="the page to see"
    )


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Run the worker and the sidecar for a while, with a line every few seconds."""
    try:
        seconds = fieldtypes.seconds(options.seconds)
    except ValueError as error:
        raise SettingsError(f"--seconds {options.seconds!r} {error}") from None
    simulation = simulated()
    truth = simulation.capacity
    started = time.monotonic()
    with simulation.worker as worker:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        # The environment is the user's; the demo brings its own settings.
        settings = environment.load(
            {},
            targets=(f"127.0.0.1:{worker.port}",),
            poll_interval=POLL_INTERVAL,
            # Beside a real worker this is on the command line in the process table.
            max_concurrency=simulation.max_concurrency,
            listen=options.listen,
            log_level="error",
        ).settings
        service = Service(settings, log.logger(settings), environ={})
        service.start()
        try:
            for line in _heading(service, truth):
                print(line, flush=True)
            while (now := time.monotonic()) - started < seconds:
                if stop.wait(min(LINE_EVERY, started + seconds - now)):
                    break
                now = time.monotonic()
                offered = simulation.offered(now - started)
                line = _line(service.agent, now - started, offered, truth)
                print(line, flush=True)
        finally:
            service.stop()
    return 0


def _heading(service: Service, truth: float) -> Iterator[str]:
    if service.server:
        yield f"The sidecar's page: {service.server.url}/ (metrics at /metrics)"
    yield (
        f"A simulated worker that can sustain {truth:.1f} requests/s. The sidecar sees "
        "only its metrics page."
    )
    yield ""
    columns = ("time", "offered", "running", "waiting", "state", "utilization")
    cells = "".join(f"{name:>12}" for name in columns)
    yield f"{cells}   estimate (80 % interval)      truth"


def _line(agent: Agent, seconds: float, offered: float, truth: float) -> str:
    """Load, state, and the estimate beside the truth."""
    values = agent.workers[0].values if agent.workers else None
    if values is None or values.running is None:
        state = values.state if values else "starting"
        return f"{seconds:10.0f} s{offered:10.1f}/s{'':24}{state!s:>12}"
    used = "" if values.utilization is None else f"{100 * values.utilization:.0f} %"
    queue = f"{values.running:12.0f}{values.waiting:12.0f}"
    load = f"{seconds:10.0f} s{offered:10.1f}/s{queue}"
    line = f"{load}{values.state!s:>12}{used:>12}"
    if values.capacity is None:
        return f"{line}   nothing yet"
    low, high = values.capacity_lower or 0.0, values.capacity_upper or 0.0
    estimate = f"{values.capacity:.1f} ({low:.1f} to {high:.1f})"
    return f"{line}   {estimate:<26}{truth:>9.1f}"
