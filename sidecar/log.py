"""Log lines: JSON for machines, text on a terminal; one line a change; no secrets."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from sidecar.environment import masked, variables
from sidecar.settings import Settings

QUIET_SECONDS = 60.0
"""How long a line is not repeated when a thing keeps changing back and forth."""


def logger(settings: Settings, stream: TextIO | None = None) -> FilteringBoundLogger:
    """The logger of one sidecar; it leaves the host process's logging alone."""
    # A daemon may be started with its standard error closed.
    stream = stream or sys.stderr or io.StringIO()
    as_text = settings.log_format == "text" or (
        settings.log_format == "auto" and stream.isatty()
    )
    level = logging.getLevelName(settings.log_level.upper())
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _Redactor(_secrets(settings)),
    ]
    if as_text:
        processors.append(structlog.dev.ConsoleRenderer(colors=stream.isatty()))
    else:
        processors.append(structlog.processors.JSONRenderer())
    bound: FilteringBoundLogger = structlog.wrap_logger(
        _Lines(stream),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return bound


def _secrets(settings: Settings) -> list[str]:
    found = []
    for variable in variables():
        if variable.is_secret:
            value: Any = settings
            for part in variable.path:
                value = getattr(value, part)
            if value:
                found.append(value.get_secret_value())
    return found


class _Lines(structlog.PrintLogger):
    """Lines are lost where the stream takes none: a full disk must not end the loop."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError):
            super().msg(message)

    debug = info = warning = error = critical = exception = msg


class _Redactor:
    """Replaces secrets wherever they stand in a line, also inside a server's answer."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        for key, value in event.items():
            if isinstance(value, str):
                for secret in self._secrets:
                    value = value.replace(secret, "***")
                event[key] = masked(value)
        return event


@dataclass
class _Said:
    what: str
    is_written: bool
    repeats: int = 0


class Changes:
    """Says a thing once, until it changes.

    Of each subject (a worker, a sink) only the last thing said is remembered; the same
    thing again is counted, and the count goes with the next line. What goes back and
    forth is written at most once a minute, and what then stays is written late.
    """

    def __init__(
        self, log: FilteringBoundLogger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._last: dict[str, _Said] = {}
        self._times: dict[tuple[str, str], float] = {}

    def say(self, subject: str, what: str, level: str, text: str, **more: Any) -> None:
        """Write the line unless the subject's last one said the same ``what``."""
        now = self._clock()
        last = self._last.get(subject)
        repeats = last.repeats if last else 0
        before = self._times.get((subject, what))
        is_known = last is not None and last.what == what and last.is_written
        if is_known or (before is not None and now - before < QUIET_SECONDS):
            self._last[subject] = _Said(what, is_known, repeats + 1)
            return
        if repeats:
            more["repeated"] = repeats
        self._last[subject] = _Said(what, is_written=True)
        self._times[subject, what] = now
        getattr(self._log, level)(text, **more)

    def forget(self, subject: str) -> None:
        """A subject is gone; whatever comes next is new."""
        self._last.pop(subject, None)
        self._times = {key: at for key, at in self._times.items() if key[0] != subject}
