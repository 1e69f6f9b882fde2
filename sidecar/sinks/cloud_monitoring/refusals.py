"""What an error of the API or of the credentials means: is it over, what was stored.

Codes: cloud.google.com/monitoring/api/troubleshooting, and reports of users.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.monitoring_v3.types import CreateTimeSeriesSummary
from google.protobuf.message import DecodeError

from sidecar.sinks.cloud_monitoring import remedies
from sidecar.sinks.cloud_monitoring.remedies import Used

_LONGEST = 300
"""Characters of the service's own words that are shown."""


class Refusal(NamedTuple):
    """One failed write.

    Attributes:
        reason: a word, see ``SinkError``.
        text: what happened and what to do.
        again: whether one more try with the same point makes sense.
        renew: whether the credentials are to be found anew before that.
        pause: whether to wait longer than for the next write: it will not mend soon.
        written: whether points may have been stored all the same, which ones is not
            known.
        failed: indexes of the series that were not stored; None: all.
    """

    reason: str
    text: str
    again: bool = False
    renew: bool = False
    pause: bool = False
    written: bool = False
    failed: frozenset[int] | None = None


_CAUSE = re.compile(r"failed with: (.*?)(?: ?\{Metric:.*)?$", re.DOTALL)
_GROUPS = re.compile(r"; (?=timeSeries\[)")
_INDEXES = re.compile(r"timeSeries\[([\d,\- ]+)\]")
_PLUGIN = "metadata from plugin failed"


def read(error: Exception, used: Used) -> Refusal:
    """What an error of a write means."""
    said = _excerpt(error)
    if isinstance(error, api.InvalidArgument):
        return _invalid(error)
    if isinstance(error, api.Unauthenticated):
        text = f"the credentials are refused: {said}; is the clock right?"
        return Refusal("credentials", text, again=True, renew=True)
    if isinstance(error, auth.GoogleAuthError) or _PLUGIN in said:
        return Refusal(
            "credentials", remedies.signed_out(error, said, used), renew=True
        )
    if isinstance(error, api.Forbidden):
        reason, remedy = remedies.denied(error, said, used)
        return Refusal(reason, f"{remedy} ({said})", pause=True)
    if isinstance(error, api.NotFound):
        text = (
            f"the project {used.project!r} is not found; {remedies.NO_PROJECT} ({said})"
        )
        return Refusal("project", text, pause=True)
    if isinstance(error, api.ResourceExhausted | api.TooManyRequests):
        return Refusal("quota", f"{remedies.QUOTA} ({said})", pause=True)
    if isinstance(error, api.DeadlineExceeded | api.GatewayTimeout):
        # A connection that died without a word is found out by nothing else.
        text = f"no answer in time, of the service or the token server: {said}"
        return Refusal("timeout", text, again=True, renew=True, written=True)
    if isinstance(error, api.ServiceUnavailable):
        text = f"the service cannot be reached: {said}"
        return Refusal("unavailable", text, again=True, written=True)
    if isinstance(error, api.InternalServerError):
        # The service itself asks for it: "Please retry after a few seconds."
        text = f"the service has an error of its own: {said}"
        return Refusal("internal", text, again=True, written=True)
    code = getattr(error, "grpc_status_code", None)
    name = code.name.lower() if code is not None else type(error).__name__
    return Refusal(name, f"{name}: {said}", written=True)


def _invalid(error: api.InvalidArgument) -> Refusal:
    """Points that are wrong; those that are right were stored."""
    summary = _summary(error)
    told = [each.status.message for each in summary.errors if each.status.message]
    causes = [_cause(text) for text in told or _GROUPS.split(error.message or "")]
    found = [remedies.sign(cause) for cause in causes]
    # What else is wrong matters more than that points are there already.
    order = sorted(
        range(len(causes)), key=lambda i: (found[i].reason == remedies.TWO_WRITERS, i)
    )
    sign, cause = found[order[0]], causes[order[0]]
    total = summary.total_point_count
    failed = total - summary.success_point_count
    count = (
        f"{failed} of {total} points are refused" if total else "the points are refused"
    )
    text = f"{count}: {cause}"
    if sign.remedy:
        text = f"{text}; {sign.remedy}"
    indexes = _indexes(error.message or "")
    is_told = total > 0 and len(indexes) == failed
    return Refusal(
        sign.reason,
        text,
        written=not is_told and summary.success_point_count > 0,
        failed=indexes if is_told else None,
    )


def _indexes(text: str) -> frozenset[int]:
    """The series that a message names, as ``timeSeries[0-2,5]``."""
    found: set[int] = set()
    for part in ",".join(_INDEXES.findall(text)).split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _summary(error: api.GoogleAPICallError) -> CreateTimeSeriesSummary:
    """The counts that come with the error; the client leaves them packed."""
    found = CreateTimeSeriesSummary()
    for detail in error.details:
        try:
            if detail.Unpack(CreateTimeSeriesSummary.pb(found)):
                return found
        except (AttributeError, DecodeError):
            continue
    return found


def _cause(text: str) -> str:
    match = _CAUSE.search(text)
    return _short(match[1] if match else text)


def _excerpt(error: Exception) -> str:
    if isinstance(error, api.GoogleAPICallError):
        return _short(error.message or "no reason given")
    return _short(str(error) or type(error).__name__)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
