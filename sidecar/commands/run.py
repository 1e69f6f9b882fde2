"""``run``: the daemon."""

from __future__ import annotations

import argparse
import faulthandler

from prometheus_client import disable_created_metrics

from sidecar import __version__, environment, log, sinks
from sidecar.notify import ServiceManager
from sidecar.service import Service
from sidecar.signals import StopRequest


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments: everything is a setting."""
    del parser


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Run until asked to stop."""
    del options
    manager = ServiceManager()
    if manager.watchdog:
        # It ends a process that hangs with SIGABRT: say where it hung.
        faulthandler.enable()
    with manager.told_what_is_wrong():
        settings = environment.load().settings
        logger = log.logger(settings)
        # The process is ours, so its page may do without a time beside every counter.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        service = Service(settings, logger, manager=manager)
    chosen = ", ".join(sinks.chosen(settings))
    page = service.server.url if service.server else "no page"
    logger.info(f"capacity-sidecar {__version__}; sinks: {chosen}; {page}")
    if not settings.enabled:
        logger.info("SIDECAR_ENABLED is false: nothing is polled or published")
    service.start()
    stop.wait()
    manager.stopping()
    logger.info("stopping")
    service.stop()
    return 0
