"""The sidecar's own counters, for its own page."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sidecar import __version__

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0)


class Telemetry:
    """Counters on a registry of their own; never the process's default one.

    Attributes:
        registry: what the own page shows.
        polls: by outcome: ``ok``, or the reason of the ``ScrapeError``.
        publishes: by sink and outcome, ``ok`` or ``failed``.
        dropped: readings that a sink did not take, by sink and reason.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.polls = Counter(
            "sidecar_polls",
            "Reads of workers, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.publishes = Counter(
            "sidecar_publishes",
            "Publications, by sink and outcome.",
            ["sink", "outcome"],
            registry=self.registry,
        )
        self.dropped = Counter(
            "sidecar_dropped",
            "Readings that a sink did not take, by reason.",
            ["sink", "reason"],
            registry=self.registry,
        )
        self.last_poll_success = Gauge(
            "sidecar_last_poll_success_timestamp_seconds",
            "When a worker was last read, Unix time.",
            registry=self.registry,
        )
        self.poll_seconds = Histogram(
            "sidecar_poll_duration_seconds",
            "How long reads of workers took.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.publish_seconds = Histogram(
            "sidecar_publish_duration_seconds",
            "How long publications took, by sink.",
            ["sink"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        build = Gauge(
            "sidecar_build_info",
            "1, with the version in labels.",
            ["version", "python"],
            registry=self.registry,
        )
        build.labels(__version__, platform.python_version()).set(1)
