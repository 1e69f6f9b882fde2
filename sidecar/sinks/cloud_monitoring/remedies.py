"""What to do about each error of the API or of the credentials, in words.

Texts: cloud.google.com/monitoring/api/troubleshooting, and reports of users.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from google.api_core import exceptions as api
from google.auth import exceptions as auth

_ROLE = (
    "the permission {permission} is missing; grant "
    "roles/monitoring.metricWriter to {account} in the project {project}, if that is "
    "the right project"
)
_SCOPE = (
    "the machine's access scopes do not let it write metrics; stop it, and start it "
    "with the scope cloud-platform or monitoring.write"
)
_DISABLED = "run: gcloud services enable monitoring.googleapis.com --project {project}"
NO_PROJECT = "set SIDECAR_CLOUD_MONITORING_PROJECT to the id of an existing project"
_BILLING = "enable billing for the project {project}"
_POLICY = (
    "a policy of the organization forbids it (VPC Service Controls, say); ask who "
    "keeps that of the project {project}"
)
_SIGNED_OUT = (
    "no credentials; on Google Cloud, give the machine or the Kubernetes service "
    "account a service account, elsewhere set GOOGLE_APPLICATION_CREDENTIALS"
)
_BAD_FILE = "GOOGLE_APPLICATION_CREDENTIALS={file!r} cannot be used: {said}"
_NO_TOKEN = (
    "no token for the credentials: {said}; is the service account there, and may this "
    "machine or pod use it? is the clock right?"
)
_NO_TOKEN_SERVER = (
    "the token server, the metadata server on Google Cloud, cannot be reached: {said}"
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
_LABELS = "set fewer or shorter SIDECAR_LABELS"
_PROJECT_NAME = "set SIDECAR_CLOUD_MONITORING_PROJECT to the project's id"
_TYPE = (
    "the metric exists with another type; choose another "
    "SIDECAR_CLOUD_MONITORING_PREFIX, or delete the old metric descriptor"
)
QUOTA = (
    "a quota of the project is used up; raise it, or SIDECAR_CLOUD_MONITORING_INTERVAL"
)


class Sign(NamedTuple):
    """Words in the service's answer that show what is wrong, and the remedy."""

    reason: str
    words: re.Pattern[str]
    remedy: str


TWO_WRITERS = "two_writers"
_SIGNS = (
    Sign(TWO_WRITERS, re.compile("more frequently|in order|older end"), _TWO_WRITERS),
    Sign("clock", re.compile("in the past|in the future"), _CLOCK),
    Sign("location", re.compile("region or location"), _PLACE),
    Sign("resource", re.compile("resource label|resource name"), _RESOURCE),
    Sign("metric_type", re.compile("[Vv]alue ?[Tt]ype|[Mm]etric ?[Kk]ind"), _TYPE),
    Sign("labels", re.compile("[Ll]abel"), _LABELS),
    Sign("project", re.compile("[Pp]roject"), _PROJECT_NAME),
)

_UNKNOWN = Sign("invalid", re.compile(""), "")
_DENIALS = (
    Sign("scope", re.compile("SCOPE|scopes"), _SCOPE),
    Sign("billing", re.compile("[Bb]illing|BILLING"), _BILLING),
    Sign("policy", re.compile("SECURITY_POLICY|organization's policy"), _POLICY),
    Sign("api_disabled", re.compile("SERVICE_DISABLED|disabled"), _DISABLED),
    Sign("permission", re.compile(""), _ROLE),
)
_PERMISSION = re.compile(r"[Pp]ermission '?([\w.]+\.[\w.]+)'? denied")
_CREATE = "monitoring.timeSeries.create"


class Used(NamedTuple):
    """What the write was made with, for the remedies.

    Attributes:
        account: whose credentials; file: where they were set to be; None: not known.
    """

    project: str
    account: str | None = None
    file: str | None = None


def signed_out(error: Exception, said: str, used: Used) -> str:
    """Where there are no credentials, or no token for them."""
    if isinstance(error, auth.DefaultCredentialsError):
        if used.file:
            return _BAD_FILE.format(file=used.file, said=said)
        return f"{_SIGNED_OUT} ({said})"
    if isinstance(error, auth.TransportError) or "TransportError" in said:
        return _NO_TOKEN_SERVER.format(said=said)
    return _NO_TOKEN.format(said=said)


def denied(error: api.Forbidden, said: str, used: Used) -> tuple[str, str]:
    """The reason in a word, and the remedy."""
    told = f"{error.reason} {said}"
    sign = next(sign for sign in _DENIALS if sign.words.search(told))
    permission = _PERMISSION.search(said)
    is_named = used.account and "@" in used.account
    return sign.reason, sign.remedy.format(
        project=used.project,
        account=used.account if is_named else "its service account",
        permission=permission[1] if permission else _CREATE,
    )


def sign(cause: str) -> Sign:
    """What an invalid argument shows."""
    return next(
        (sign for sign in _SIGNS if sign.words.search(cause)),
        _UNKNOWN,
    )
