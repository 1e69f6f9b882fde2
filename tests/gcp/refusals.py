"""What is said when a rule is broken, and how the server writes times."""

from __future__ import annotations

import datetime as dt

_PACIFIC = dt.timezone(dt.timedelta(hours=-7))
"""The servers write Pacific time (slo-generator #98); this double has no winter."""


class Refused(Exception):
    """One series is not written.

    Attributes:
        text: the reason, the same for all series that fail alike.
        detail: what follows it, of the first such series.
        at_write: the point was looked at and could not be written; else a field of the
            request was wrong. The answer words the two differently.
    """

    def __init__(self, text: str, detail: str = "", *, at_write: bool = False) -> None:
        super().__init__(text + detail)
        self.text = text
        self.detail = detail
        self.at_write = at_write


def wrong_field(index: int, field: str, value: str | None, text: str) -> Refused:
    """A field's value is refused: ``timeSeries[3].metric.type`` say.

    Args:
        index: of the series in the request.
        field: its path under the series, or ``""`` for the series itself.
        value: what it was; None: not said.
    """
    path = f"timeSeries[{index}]" + (f".{field}" if field else "")
    shown = "" if value is None else f' of "{value}"'
    return Refused(f"Field {path} had an invalid value{shown}: {text}")


def iso(time: float) -> str:
    """A time as field errors show it: ``2020-10-20T15:33:00-07:00``."""
    moment = dt.datetime.fromtimestamp(time, _PACIFIC)
    return moment.isoformat(timespec="milliseconds").replace(".000", "")


def stamp(time: float) -> str:
    """A time as write errors show it: ``2025/10/05-06:03:53.004``."""
    moment = dt.datetime.fromtimestamp(time, _PACIFIC)
    return f"{moment:%Y/%m/%d-%H:%M:%S}.{moment.microsecond // 1000:03d}"
