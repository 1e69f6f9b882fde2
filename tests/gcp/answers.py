"""What Cloud Monitoring answers when it refuses, as ``google.rpc.Status``.

Texts and details are those of real answers, their source in each docstring; where none
is named, the text is made up in the style of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    ErrorInfo,
    Help,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

SERVICE = "monitoring.googleapis.com"
METHODS = "google.monitoring.v3.MetricService"

_DOMAIN = "googleapis.com"


class Answered(Exception):
    """The call ends with this status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def status(code: grpc.StatusCode, message: str, *details: Message) -> Status:
    """Any answer."""
    packed = [Packed() for _ in details]
    for any_detail, detail in zip(packed, details, strict=True):
        any_detail.Pack(detail)
    return Status(code=code.value[0], message=message, details=packed)


def invalid(message: str) -> Status:
    """The whole request is refused."""
    return status(grpc.StatusCode.INVALID_ARGUMENT, message)


def too_many_series(most: int) -> Status:
    """ServiceWeaver/weaver-gke #142."""
    text = f"A maximum of {most} TimeSeries can be written in a single request."
    return invalid(f"Field timeSeries had an invalid value: {text}")


def no_project(name: str) -> Status:
    """A project that is not there: no source."""
    return status(grpc.StatusCode.NOT_FOUND, f"Project '{name}' not found.")


def no_descriptor(kind: str) -> Status:
    """python-docs-samples #3483 has it of a metric."""
    text = f"Could not find descriptor for resource '{kind}'."
    return status(grpc.StatusCode.NOT_FOUND, text)


def missing_role(permission: str = "monitoring.timeSeries.create") -> Status:
    """No ``roles/monitoring.metricWriter``: dynatrace-gcp-monitor #25."""
    text = f"Permission {permission} denied (or the resource may not exist)."
    return status(grpc.StatusCode.PERMISSION_DENIED, text)


def insufficient_scope(method: str = "CreateTimeSeries") -> Status:
    """A virtual machine without monitoring.write: fuzzbench #1286, api.ErrorReason."""
    return status(
        grpc.StatusCode.PERMISSION_DENIED,
        "Request had insufficient authentication scopes.",
        _info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", {"method": f"{METHODS}.{method}"}),
    )


def api_disabled(number: str = "123456789012") -> Status:
    """The API is not switched on: terraform-google-sql-db #593."""
    url = f"https://console.developers.google.com/apis/api/{SERVICE}/overview"
    link = Help.Link(
        description="Google developers console API activation",
        url=f"{url}?project={number}",
    )
    return status(
        grpc.StatusCode.PERMISSION_DENIED,
        f"Cloud Monitoring API has not been used in project {number} before or it is "
        f"disabled. Enable it by visiting {link.url} then retry. If you enabled this "
        "API recently, wait a few minutes for the action to propagate to our systems "
        "and retry.",
        Help(links=[link]),
        _info("SERVICE_DISABLED", {"consumer": f"projects/{number}"}),
    )


def quota(number: str = "123456789012") -> Status:
    """Too many requests a minute: slo-generator #288, of another quota; ErrorReason."""
    metric, limit = "Time series ingestion requests", "per minute"
    return status(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"Quota exceeded for quota metric '{metric}' and limit '{metric} {limit}' of "
        f"service '{SERVICE}' for consumer 'project_number:{number}'.",
        _info("RATE_LIMIT_EXCEEDED", {"consumer": f"projects/{number}"}),
    )


def unauthenticated() -> Status:
    """A token that is not accepted: microservices-demo #255."""
    return status(
        grpc.StatusCode.UNAUTHENTICATED,
        "Request had invalid authentication credentials. Expected OAuth 2 access "
        "token, login cookie or other valid authentication credential. See "
        "https://developers.google.com/identity/sign-in/web/devconsole-project.",
    )


def internal() -> Status:
    """prometheus-engine #144."""
    return status(
        grpc.StatusCode.INTERNAL,
        "Internal error encountered. Please retry after a few seconds. If internal "
        "errors persist, contact support at https://cloud.google.com/support/docs.",
    )


def unavailable() -> Status:
    """The usual answer of a Google frontend."""
    text = "The service is currently unavailable."
    return status(grpc.StatusCode.UNAVAILABLE, text)


def _info(reason: str, metadata: Mapping[str, str]) -> ErrorInfo:
    known = {"service": SERVICE, **metadata}
    return ErrorInfo(reason=reason, domain=_DOMAIN, metadata=known)
