"""Virtual time, and workers' pages without a connection."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.target import Target

EPOCH = 1_700_000_000.0
"""Unix time at 0 of the virtual clock."""


class Time:
    """The virtual clock, in seconds; it moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        """Unix seconds."""
        return EPOCH + self.now


Page = Callable[[str], str]
"""From a path, with its query, to the body; raises ``ScrapeError``."""


class Network:
    """Every worker's page by host name."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}

    def connection(
        self, target: Target, *, clock: Callable[[], float], **others: object
    ) -> _Connection:
        """Takes what ``http_page.HttpPage`` takes, and stands in for it."""
        del others
        return _Connection(self.pages[target.host], clock)


class _Connection:
    """The part of ``http_page.HttpPage`` that the scraper uses."""

    def __init__(self, page: Page, clock: Callable[[], float]) -> None:
        self._page = page
        self._clock = clock

    def get(self, path: str) -> tuple[str, str, float]:
        """The body, the path it came from, and when it had arrived."""
        return self._page(path), path, self._clock()

    def close(self) -> None:
        """Nothing is open."""

    def abort(self, why: str = "stopped") -> None:
        """Nothing is under way."""
