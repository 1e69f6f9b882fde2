"""The command line: arguments, settings, exit status; the commands do the work."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from sidecar import __version__
from sidecar.errors import SettingsError, SidecarError
from sidecar.signals import StopRequest

OK = 0
FAILED = 1
MISCONFIGURED = 2
INTERRUPTED = 130

COMMANDS = {
    "run": "poll the workers and publish, until stopped",
    "check": "say what would be found and published, and what is in the way",
    "healthy": "ask the running sidecar whether it is healthy",
    "config": "show every setting, its value and where it came from",
    "once": "poll twice, publish once, show the readings",
    "record": "poll a worker into a trace file",
    "replay": "run a recorded trace through the estimator",
    "simulate": "serve the page of a simulated worker under load",
    "demo": "show it all with a simulated worker under load",
}


def run(arguments: Sequence[str], stop: StopRequest) -> int:
    """Run one command; the result is the exit status."""
    lost: str | None = None
    try:
        status = _run(arguments, stop)
    except SystemExit as error:
        # The parser has said what it had to say: help, the version, or what is wrong.
        status = error.code if isinstance(error.code, int) else FAILED
    except BrokenPipeError:
        status = OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        status, lost = FAILED, error.strerror
    lost = _flush(sys.stdout) or lost
    _flush(sys.stderr)
    # The daemon has counted what it could not write.
    if lost and "run" not in arguments:
        print(f"capacity-sidecar: standard output: {lost}", file=sys.stderr)
        return FAILED
    return status


def _flush(stream: TextIO | None) -> str | None:
    """Flush now, since at exit it is too late to say why that fails.

    Whoever reads from a pipe and closes it has seen enough: that is no failure.
    """
    if stream is None:
        return None
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return None if isinstance(error, BrokenPipeError) else error.strerror
    return None


def _run(arguments: Sequence[str], stop: StopRequest) -> int:
    parser = argparse.ArgumentParser(
        prog="capacity-sidecar",
        description="Tells an autoscaler how many requests per second an LLM worker "
        "can sustain. Settings are environment variables: capacity-sidecar config.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Only the modules of the command that is named are worth their import.
    named = [text for text in arguments if not text.startswith("-")][:1]
    modules = {}
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary}.")
        if named == [name]:
            modules[name] = import_module(f"sidecar.commands.{name}")
            modules[name].configure(command)
    options = parser.parse_args(arguments)
    try:
        status: int = modules[options.command].run(options, stop)
    except SettingsError as error:
        for problem in error.problems:
            print(f"capacity-sidecar: {problem}", file=sys.stderr)
        return MISCONFIGURED
    except SidecarError as error:
        print(f"capacity-sidecar: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
