"""The sinks' settings: a model each, nested in ``Settings``."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from sidecar.fieldtypes import HttpUrl, LabelMap, Names, Seconds, Token
from sidecar.identity import AUTO, RESOURCE_LABELS
from sidecar.reading import NAMES, SIGNAL_PREFIX, TIMESTAMP

SHORTEST_WRITE = 5.0
"""Seconds between two points that Cloud Monitoring takes: monitoring/quotas."""

SIGNAL, _OWN = "signal", "llm_worker_"

_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{3,61}[a-z0-9]|\d{3,}")
_TYPE = re.compile(
    r"(custom|workload|external)\.googleapis\.com(/[A-Za-z][A-Za-z0-9_]*)*"
)
_LONGEST_PREFIX = 80
HIGHEST_PORT = 65535
_ENDPOINT = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:\d{1,5})?")


def metric_word(name: str) -> str:
    """The word for a published name in ``SIDECAR_CLOUD_MONITORING_METRICS``."""
    return SIGNAL if name.startswith(SIGNAL_PREFIX) else name.removeprefix(_OWN)


METRIC_WORDS = (SIGNAL, *(metric_word(name) for name in NAMES if name != TIMESTAMP))
"""A point has its own time, so the reading's is no metric there."""


def _project(value: str) -> str:
    if not _PROJECT.fullmatch(value):
        msg = "is not a project's id or number"
        raise ValueError(msg)
    return value


def _interval(value: float) -> float:
    if value < SHORTEST_WRITE:
        msg = f"is shorter than {SHORTEST_WRITE:g}s; Cloud Monitoring takes one point "
        msg += f"of a series each {SHORTEST_WRITE:g}s"
        raise ValueError(msg)
    return value


def _prefix(value: str) -> str:
    value = value.rstrip("/")
    if not _TYPE.fullmatch(value) or len(value) > _LONGEST_PREFIX:
        msg = "does not begin custom.googleapis.com, workload.googleapis.com or "
        msg += f"external.googleapis.com, or is longer than {_LONGEST_PREFIX}"
        raise ValueError(msg)
    return value


def _metrics(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        msg = "names no reading"
        raise ValueError(msg)
    words = tuple(dict.fromkeys(metric_word(name) for name in value))
    for word in words:
        if word not in METRIC_WORDS:
            msg = f"{word} is not one of {', '.join(METRIC_WORDS)}"
            raise ValueError(msg)
    return words


def _endpoint(value: str) -> str:
    match = _ENDPOINT.fullmatch(value)
    if not match or not 1 <= int((match[2] or ":443")[1:]) <= HIGHEST_PORT:
        msg = "is not host:port"
        raise ValueError(msg)
    return value


def _resource_labels(value: dict[str, str]) -> dict[str, str]:
    known = {label for labels in RESOURCE_LABELS.values() for label in labels}
    if unknown := sorted(set(value) - known):
        msg = f"has {', '.join(unknown)}, which no resource type has; they have "
        msg += ", ".join(sorted(known))
        raise ValueError(msg)
    return value


class PushgatewaySettings(BaseModel):
    """The Pushgateway sink."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl | None = Field(
        None,
        description="Where the Pushgateway is. Setting it switches the sink on.",
        examples=["http://pushgateway:9091"],
    )
    job: str = Field(
        "capacity-sidecar",
        min_length=1,
        description="The `job` of the group that is pushed.",
    )
    interval: Seconds = Field(
        15.0, description="How often to push. Each push replaces the worker's group."
    )
    timeout: Seconds = Field(2.0, description="How long one push or delete may take.")
    username: str | None = Field(
        None, description="User name for basic authentication."
    )
    password: SecretStr | None = Field(
        None, description="Password for basic authentication."
    )
    bearer_token: Token = Field(
        None, description="Token to send instead of a user name and password."
    )

    @property
    def is_set(self) -> bool:
        """Whether the sink is on where no sinks are named."""
        return self.url is not None

    @model_validator(mode="after")
    def _one_authentication(self) -> PushgatewaySettings:
        if self.bearer_token and self.username:
            msg = "takes a bearer token or a user name, not both"
            raise ValueError(msg)
        if bool(self.username) != bool(self.password):
            msg = "needs both a user name and a password, or neither"
            raise ValueError(msg)
        return self


class CloudMonitoringSettings(BaseModel):
    """The Google Cloud Monitoring sink."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project: Annotated[str, AfterValidator(_project)] | None = Field(
        None,
        description="The project to write to. Setting it switches the sink on. Where "
        "`SIDECAR_SINKS` names the sink, the default is the machine's own project.",
        examples=["my-project"],
    )
    interval: Annotated[Seconds, AfterValidator(_interval)] = Field(
        10.0, description="How often to write, 5s or more."
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "custom.googleapis.com",
        description="What the metric types begin with. An HPA can leave out "
        "`custom.googleapis.com`, and nothing else.",
    )
    metrics: Annotated[Names, AfterValidator(_metrics)] = Field(
        (SIGNAL, "capacity", "utilization"),
        description=f"Which readings to write. Of: {', '.join(METRIC_WORDS)}.",
        examples=["signal,capacity,utilization"],
    )
    resource_type: Literal[
        "auto",
        "gce_instance",
        "k8s_pod",
        "k8s_container",
        "generic_task",
        "generic_node",
    ] = Field(
        "auto",
        description="The monitored resource. `auto`: `k8s_pod` on GKE, `gce_instance` "
        "on a machine of Compute Engine, else `generic_task`.",
    )
    resource_labels: Annotated[LabelMap, AfterValidator(_resource_labels)] = Field(
        {},
        description="Labels of the resource, `name=value`, instead of those found out.",
        examples=["location=us-central1,namespace=eu"],
    )
    timeout: Seconds = Field(4.0, description="How long one write may take.")
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = Field(
        None,
        description="Another address of the API, `host:port`; for an emulator or a "
        "private endpoint.",
        examples=["127.0.0.1:8086"],
    )
    insecure: bool = Field(
        False,
        description="`true`: no TLS and no credentials, for an emulator.",
    )

    @property
    def is_set(self) -> bool:
        """Whether the sink is on where no sinks are named."""
        return self.project is not None

    @model_validator(mode="after")
    def _fits_together(self) -> CloudMonitoringSettings:
        if self.insecure and not self.endpoint:
            msg = "is insecure, but SIDECAR_CLOUD_MONITORING_ENDPOINT is not set"
            raise ValueError(msg)
        if self.resource_type != AUTO:
            labels = RESOURCE_LABELS[self.resource_type]
            if surplus := sorted(set(self.resource_labels) - set(labels)):
                msg = f"sets {', '.join(surplus)}, but {self.resource_type} has "
                msg += ", ".join(labels)
                raise ValueError(msg)
        return self
