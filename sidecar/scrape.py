"""From a target to a sample: the page's path, the name filter, the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from sidecar import engines
from sidecar.engines.base import Engine
from sidecar.errors import PageError, ScrapeError
from sidecar.exposition import Page
from sidecar.http_page import HttpPage
from sidecar.sample import Sample

WHOLE = "/metrics"
FILTERED = "/metrics/"


class Scraper:
    """Reads one worker.

    The first read takes the whole page and learns the dialect. The next asks for just
    the needed families, which vLLM's ``/metrics/`` honours (5 kB instead of 50 kB,
    a tenth of the work for its API process); a server that ignores the filter, has no
    such path, or leaves out what the whole page had, is asked for the whole page again.

    Args:
        path: the page's path where it is set; it is then asked for as it is.
    """

    def __init__(
        self, http: HttpPage, dialects: Sequence[Engine], path: str | None = None
    ) -> None:
        self.http = http
        self._dialects = dialects
        self._path = path
        self.forget()

    def forget(self) -> None:
        """Learn the page anew: another worker may answer next time."""
        self._whole = self._path
        self._dialect: tuple[Engine, str] | None = None
        self._has: frozenset[str] = frozenset()
        self._size = 0
        self._filter_works: bool | None = False if self._path else None

    def read(self) -> Sample:
        """One sample.

        Raises:
            ScrapeError: no usable answer; PageError: an answer without a sample.
        """
        try:
            return self._read()
        except ScrapeError:
            self.forget()
            raise
        except Exception as error:
            # A page that nobody thought of must not end the loop, nor look like health.
            self.forget()
            raise fault(error) from error

    def _read(self) -> Sample:
        if self._dialect and self._filter_works is not False:
            sample = self._filtered(*self._dialect)
            self._filter_works = sample is not None
            if sample is not None:
                return sample
        return self._read_whole()

    def _filtered(self, engine: Engine, prefix: str) -> Sample | None:
        """A sample from the filtered page; None where it is worse than the whole."""
        names = [("name[]", name) for name in engine.names(prefix)]
        try:
            body, _, at = self.http.get(f"{FILTERED}?{urlencode(names)}")
            sample = engine.read(Page(body), prefix, at)
        except PageError:
            return None
        except ScrapeError as error:
            if error.reason in {"not_found", "http_status", "redirect", "encoding"}:
                return None
            raise
        return sample if len(body) < self._size and self._has <= _has(sample) else None

    def _read_whole(self) -> Sample:
        body, at = self._whole_page()
        page = Page(body)
        engine, prefix = self._dialect or engines.identify(page, self._dialects)
        sample = engine.read(page, prefix, at)
        self._dialect = engine, prefix
        self._has, self._size = _has(sample), len(body)
        return sample

    def _whole_page(self) -> tuple[str, float]:
        if self._whole is not None:
            body, self._whole, at = self.http.get(self._whole)
            return body, at
        try:
            body, self._whole, at = self.http.get(WHOLE)
        except ScrapeError as error:
            if error.reason != "not_found":
                raise
            body, self._whole, at = self.http.get(FILTERED)
        return body, at


def fault(error: Exception) -> ScrapeError:
    """An error of ours in dealing with a page, as a poll that gave no sample."""
    msg = f"a fault of the sidecar's in dealing with the page: {type(error).__name__}"
    return ScrapeError(f"{msg}: {error}", reason="fault")


def _has(sample: Sample) -> frozenset[str]:
    """Which of the optional numbers a sample has."""
    optional = {
        "waiting": sample.waiting,
        "kv_usage": sample.kv_usage,
        "kv_tokens": sample.kv_tokens,
    }
    present = (name for name, value in optional.items() if value is not None)
    return frozenset({*present, *sample.counters})
