"""Readings as metric families of prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sidecar.reading import Gauge


def families(found: Iterable[Gauge]) -> list[GaugeMetricFamily]:
    """The gauges, each name once with all its series."""
    named: dict[str, GaugeMetricFamily] = {}
    for gauge in found:
        if gauge.name not in named:
            named[gauge.name] = GaugeMetricFamily(gauge.name, gauge.help)
        named[gauge.name].add_sample(gauge.name, dict(gauge.labels), gauge.value)
    return list(named.values())


class _Fixed(Collector):
    def __init__(self, found: Iterable[Gauge]) -> None:
        self._families = families(found)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._families


def text(found: Iterable[Gauge]) -> bytes:
    """The gauges in the text format 0.0.4, without timestamps."""
    registry = CollectorRegistry()
    registry.register(_Fixed(found))
    return generate_latest(registry)
