"""One worker as the agent sees it: its page, its pipeline, how the last polls went."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

from sidecar import engines, estimators
from sidecar.errors import ScrapeError
from sidecar.http_page import HttpPage, tls_context
from sidecar.pipeline import Pipeline, Recall
from sidecar.reading import Identity, Values
from sidecar.sample import Sample
from sidecar.scrape import Scraper, fault
from sidecar.settings import Settings
from sidecar.states import State
from sidecar.target import Target

Clock = Callable[[], float]


class Worker:
    """Polls one target and keeps what the last poll gave.

    Attributes:
        values: of the last poll.
        error: why the last poll failed; None: it did not.
        last_success: monotonic time of the last good poll, seconds; None: none yet.
        failures: polls that failed since then.
        last_reading: monotonic time of the last poll that had something to publish.
        identity: under which it was last published.
    """

    def __init__(
        self,
        target: Target,
        settings: Settings,
        clock: Clock = time.monotonic,
        recall: Recall | None = None,
    ) -> None:
        self.target = target
        self.values = Values(State.UNREACHABLE)
        self.error: ScrapeError | None = None
        self.last_success: float | None = None
        self.failures = 0
        self.last_reading: float | None = None
        self.identity: Identity | None = None
        self._settings = settings
        self._clock = clock
        self._scraper = scraper(target, settings, clock)
        self.pipeline = Pipeline.configured(settings, target.max_concurrency, recall)

    @property
    def sample(self) -> Sample | None:
        """The last good sample."""
        return self.pipeline.previous

    @property
    def state(self) -> State:
        """What the worker is doing, as of the last poll."""
        return self.values.state

    def poll(self) -> None:
        """Read the worker once. A failed poll keeps the baseline."""
        try:
            sample = self._scraper.read()
            self.values = self.pipeline.advance(sample)
        except ScrapeError as error:
            self._failed(error)
        except Exception as error:
            self._failed(fault(error))
        else:
            self.failures, self.error, self.last_success = 0, None, sample.at

    def _failed(self, error: ScrapeError) -> None:
        self.failures += 1
        self.error = error
        self.values = Values(State.UNREACHABLE)

    def move(self, target: Target) -> None:
        """The same worker at another place, or with other limits; go on learning."""
        if target.place != self.target.place or target.scheme != self.target.scheme:
            self._scraper.http.close()
            self._scraper = scraper(target, self._settings, self._clock)
            self.failures = 0
        self.target = target
        self.pipeline.use(estimators.build(self._settings, target.max_concurrency))
        self.pipeline.sequence_limit = (
            self._settings.max_concurrency or target.max_concurrency
        )

    def close(self) -> None:
        """Close the connection; the next poll opens another."""
        self._scraper.http.close()

    def abort(self) -> None:
        """End a read under way, from any thread."""
        self._scraper.http.abort()


def read_once(target: Target, settings: Settings) -> Sample:
    """One sample of a target that is not watched.

    Raises:
        ScrapeError: no usable answer.
    """
    reader = scraper(target, settings)
    try:
        return reader.read()
    finally:
        reader.http.close()


def scraper(
    target: Target, settings: Settings, clock: Clock = time.monotonic
) -> Scraper:
    """What reads the target, as configured."""
    tls: ssl.SSLContext | None = None
    if target.scheme == "https":
        ca_file = settings.tls_ca_file
        tls = tls_context(
            str(ca_file) if ca_file else None, skip_verify=settings.tls_skip_verify
        )
    token = settings.bearer_token
    http = HttpPage(
        target,
        limit=settings.scrape_limit,
        token=token.get_secret_value() if token else None,
        tls=tls,
        clock=clock,
    )
    path = target.path or settings.metrics_path
    return Scraper(http, engines.load(settings.engine), path)
