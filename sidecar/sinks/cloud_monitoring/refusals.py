"""What an error of the API or of the credentials means, and what to do about it.

Codes and texts: cloud.google.com/monitoring/api/troubleshooting, and reports of users.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.monitoring_v3.types import CreateTimeSeriesSummary
from google.protobuf.message import DecodeError

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
        written: whether some points may have been stored all the same.
        failed: points that were not stored; None: all.
    """

    reason: str
    text: str
    again: bool = False
    renew: bool = False
    pause: bool = False
    written: bool = False
    failed: int | None = None


_ROLE = (
    "the permission monitoring.timeSeries.create is missing; grant "
    "roles/monitoring.metricWriter to {account} in the project {project}, if that is "
    "the right project"
)
_SCOPE = (
    "the machine's access scopes do not let it write metrics; stop it, and start it "
    "with the scope cloud-platform or monitoring.write"
)
_DISABLED = "run: gcloud services enable monitoring.googleapis.com --project {project}"
_NO_PROJECT = "set SIDECAR_CLOUD_MONITORING_PROJECT to the id of an existing project"
_SIGNED_OUT = (
    "no credentials; on Google Cloud, give the machine or the Kubernetes service "
    "account a service account, elsewhere set GOOGLE_APPLICATION_CREDENTIALS"
)
_TWO_WRITERS = (
    "another process writes these series; give each sidecar its own SIDECAR_WORKER, "
    "or its own SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS"
)
_CLOCK = "this machine's clock is off; see timedatectl or chronyc tracking"
_PLACE = (
    "a zone is written us-central1-a, a location us-central1; set "
    "SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS"
)
_RESOURCE = (
    "set SIDECAR_CLOUD_MONITORING_RESOURCE_TYPE and "
    "SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS to a resource that has all its labels"
)
_TYPE = (
    "the metric exists with another type; choose another "
    "SIDECAR_CLOUD_MONITORING_PREFIX, or delete the old metric descriptor"
)
_QUOTA = (
    "a quota of the project is used up; raise it, or SIDECAR_CLOUD_MONITORING_INTERVAL"
)


class _Sign(NamedTuple):
    """Words in an invalid argument that show what is wrong, and the remedy."""

    reason: str
    words: re.Pattern[str]
    remedy: str


TWO_WRITERS = "two_writers"
_SIGNS = (
    _Sign(TWO_WRITERS, re.compile("more frequently|in order|older end"), _TWO_WRITERS),
    _Sign("clock", re.compile("in the past|in the future"), _CLOCK),
    _Sign("location", re.compile("region or location"), _PLACE),
    _Sign("resource", re.compile("resource label|resource name"), _RESOURCE),
    _Sign("metric_type", re.compile("[Vv]alue ?[Tt]ype|[Mm]etric ?[Kk]ind"), _TYPE),
)
_CAUSE = re.compile(r"failed with: (.*?)(?: ?\{Metric:.*)?$", re.DOTALL)
_GROUPS = re.compile(r"; (?=timeSeries\[)")
_PLUGIN = "metadata from plugin failed"


def read(error: Exception, project: str, account: str | None) -> Refusal:
    """What an error of a write means.

    Args:
        account: whose credentials were sent; None: not known.
    """
    said = _excerpt(error)
    if isinstance(error, api.InvalidArgument):
        return _invalid(error)
    if isinstance(error, api.Unauthenticated):
        text = f"the credentials are refused: {said}"
        return Refusal("credentials", text, again=True, renew=True)
    if isinstance(error, auth.GoogleAuthError) or _PLUGIN in said:
        return Refusal("credentials", f"{_SIGNED_OUT} ({said})", renew=True)
    if isinstance(error, api.Forbidden):
        reason, remedy = _denied(error, said)
        named = account if account and "@" in account else "its service account"
        remedy = remedy.format(project=project, account=named)
        return Refusal(reason, f"{remedy} ({said})", pause=True)
    if isinstance(error, api.NotFound):
        text = f"the project {project!r} is not found; {_NO_PROJECT} ({said})"
        return Refusal("project", text, pause=True)
    if isinstance(error, api.ResourceExhausted | api.TooManyRequests):
        return Refusal("quota", f"{_QUOTA} ({said})", pause=True)
    if isinstance(error, api.DeadlineExceeded | api.GatewayTimeout):
        return Refusal(
            "timeout", f"no answer in time: {said}", again=True, written=True
        )
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


def _denied(error: api.Forbidden, said: str) -> tuple[str, str]:
    told = f"{error.reason} {said}"
    if "SCOPE" in told or "scopes" in told:
        return "scope", _SCOPE
    if "SERVICE_DISABLED" in told or "disabled" in told:
        return "api_disabled", _DISABLED
    return "permission", _ROLE


def _invalid(error: api.InvalidArgument) -> Refusal:
    """Points that are wrong; those that are right were stored."""
    summary = _summary(error)
    told = [each.status.message for each in summary.errors if each.status.message]
    causes = [_cause(text) for text in told or _GROUPS.split(error.message or "")]
    found = [_sign(cause) for cause in causes]
    # What else is wrong matters more than that points are there already.
    order = sorted(
        range(len(causes)), key=lambda i: (found[i].reason == TWO_WRITERS, i)
    )
    sign, cause = found[order[0]], causes[order[0]]
    total = summary.total_point_count
    failed = total - summary.success_point_count
    count = f"{failed} of {total} points are refused" if total else "it is refused"
    text = f"{count}: {cause}"
    if sign.remedy:
        text = f"{text}; {sign.remedy}"
    return Refusal(
        sign.reason,
        text,
        written=summary.success_point_count > 0,
        failed=failed if total else None,
    )


def _sign(cause: str) -> _Sign:
    return next(
        (sign for sign in _SIGNS if sign.words.search(cause)),
        _Sign("invalid", _SIGNS[0].words, ""),
    )


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
    return _short(getattr(error, "message", None) or str(error) or type(error).__name__)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
