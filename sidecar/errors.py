"""Everything this package raises on purpose.

::

    SidecarError
    ├── SettingsError           a setting is wrong; the process exits with 2
    ├── TraceError              a trace file is wrong: file, line, column
    ├── ProbeError              the daemon's own page says that it is not healthy
    ├── SinkError               a sink did not take the readings; they are dropped
    └── ScrapeError             a poll gave no sample; the baseline stays
        └── PageError           an answer came, but not the numbers we need
            ├── NotExposition   not metrics text: JSON, HTML, …
            ├── WrongEndpoint   metrics of something that is not a worker
            ├── NoSamples       a worker that has not exported anything yet
            ├── MissingCounter  no counter of finished requests
            ├── MissingGauge    no gauge of running requests
            └── MalformedSample a sample we need is unreadable

A message names the thing, its value, and what to do. ``reason`` is the short word
that counts the error in ``sidecar_polls_total`` and ``sidecar_dropped_total``.
"""

from __future__ import annotations


class SidecarError(Exception):
    """Base of all errors of this package."""


class SettingsError(SidecarError):
    """One or more settings cannot be used; ``problems`` has a sentence for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class TraceError(SidecarError):
    """A recorded trace cannot be read."""


class ProbeError(SidecarError):
    """The daemon is not healthy, or its page gives no answer."""


class SinkError(SidecarError):
    """A sink refused the readings or could not be reached.

    Attributes:
        dropped: how many readings were lost; None: all.
    """

    def __init__(
        self, message: str, *, reason: str, dropped: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.dropped = dropped


class ScrapeError(SidecarError):
    """No usable answer from a worker."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class PageError(ScrapeError):
    """The worker answered, but the page has no usable sample."""

    reason = "page"

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=type(self).reason)


class NotExposition(PageError):
    """The body is not Prometheus text."""

    reason = "not_exposition"


class WrongEndpoint(PageError):
    """The page belongs to something that is not a supported worker."""

    reason = "wrong_endpoint"


class NoSamples(PageError):
    """The worker has not exported its metrics yet."""

    reason = "no_samples"


class MissingCounter(PageError):
    """The page lacks the counter of finished requests."""

    reason = "missing_counter"


class MissingGauge(PageError):
    """The page lacks the gauge of running requests."""

    reason = "missing_gauge"


class MalformedSample(PageError):
    """A line of a needed family cannot be read, so its total is unknown."""

    reason = "malformed"
