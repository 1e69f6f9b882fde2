"""A command line in this process."""

from __future__ import annotations

from sidecar import cli
from sidecar.signals import StopRequest


def run(*arguments: str) -> int:
    stop = StopRequest()
    stop.install()
    try:
        return cli.run(arguments, stop)
    finally:
        stop.uninstall()
