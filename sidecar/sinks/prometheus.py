"""The own page: readings wait there to be scraped.

An old reading stays until its worker is retired; its time is published beside it, so
that a consumer can judge its age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sidecar.errors import SettingsError
from sidecar.reading import Identity, Reading, gauges
from sidecar.server import Server
from sidecar.settings import Settings
from sidecar.sinks.families import families


class PrometheusSink(Collector):
    """A collector of the newest reading of every worker."""

    name = "prometheus"
    interval = 0.0

    def __init__(self, listen: str) -> None:
        self._listen = listen
        self._readings: dict[Identity, Reading] = {}

    def check(self) -> str:
        """The page is part of the process that ``run`` starts; is its address free?"""
        if self._listen == "off":
            return "no page: SIDECAR_LISTEN is off"
        page = f"the own page, http://{self._listen}/metrics"
        try:
            Server(self._listen, {}).stop()
        except SettingsError:
            return f"{page}; the address is taken now (by a running sidecar?)"
        return page

    def publish(self, readings: Sequence[Reading]) -> None:
        """Show the readings from now on."""
        # Replaced, not changed: a scrape may be reading it on another thread.
        self._readings = {**self._readings, **{r.identity: r for r in readings}}

    def retire(self, identities: Sequence[Identity]) -> None:
        """Show the workers no more."""
        gone = set(identities)
        self._readings = {i: r for i, r in self._readings.items() if i not in gone}

    def close(self) -> None:
        """Nothing is open."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families for a scrape."""
        readings = self._readings.values()
        yield from families(gauge for reading in readings for gauge in gauges(reading))


def build(settings: Settings) -> PrometheusSink:
    """The sink as configured."""
    return PrometheusSink(settings.listen)
