"""Every setting: its type, its default and its meaning, in this one place.

The environment variable is ``SIDECAR_`` and the field's name in capitals, for a nested
model with the model's name in between: ``pushgateway.url`` is
``SIDECAR_PUSHGATEWAY_URL``. ``environment.load`` reads them.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from sidecar import tag, target
from sidecar.fieldtypes import (
    CertificateFile,
    LabelMap,
    Names,
    OwnFile,
    Port,
    Positive,
    Seconds,
    Token,
)
from sidecar.reading import OWN_LABELS
from sidecar.registry import ENGINES, ESTIMATORS, SINKS
from sidecar.sink_settings import CloudMonitoringSettings, PushgatewaySettings

PREFIX = "SIDECAR_"
SHORTEST_POLL = 0.1
LONGEST_POLL = 3600.0
LONGEST_SCRAPE = 20.0
USUAL_SCRAPE = 10.0

_AGGREGATION = re.compile(r"lifetime_max|max|mean|last|p(100|\d{1,2})")


def _targets(value: tuple[str, ...]) -> tuple[str, ...]:
    places = [target.parse(text).place for text in value]
    if len(set(places)) < len(places):
        msg = "names one worker twice"
        raise ValueError(msg)
    return value


def _path(value: str) -> str:
    if not re.fullmatch("/[!-~]*", value):
        msg = "is not a path: it begins with / and has no blanks"
        raise ValueError(msg)
    return value


def _sinks(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        msg = "names no sink"
        raise ValueError(msg)
    return tuple(dict.fromkeys(_one_of(name, SINKS.names()) for name in value))


def _one_of(value: str, names: list[str]) -> str:
    if value not in names:
        msg = f"is not one of {', '.join(names)}"
        raise ValueError(msg)
    return value


def _legal_tag(value: str) -> str:
    if not tag.is_legal(value):
        msg = f"may hold only letters, digits and _, at most {tag.MAX_LENGTH}"
        raise ValueError(msg)
    return value


def _aggregation(value: str) -> str:
    if not _AGGREGATION.fullmatch(value):
        msg = "is not lifetime_max, max, mean, last or p0 to p100"
        raise ValueError(msg)
    return value


def _poll(value: float) -> float:
    if not SHORTEST_POLL <= value <= LONGEST_POLL:
        msg = f"is not from {SHORTEST_POLL:g}s to {LONGEST_POLL / 3600:g}h"
        raise ValueError(msg)
    return value


def _scrape(value: float) -> float:
    if value > LONGEST_SCRAPE:
        msg = f"is longer than {LONGEST_SCRAPE:g}s"
        raise ValueError(msg)
    return value


def _address(value: str) -> str:
    if value != "off":
        target.listen_address(value)
    return value


def _own_labels(value: dict[str, str]) -> dict[str, str]:
    if taken := sorted({*OWN_LABELS, "job", "le"} & set(value)):
        msg = f"uses {', '.join(taken)}, which the sidecar sets itself"
        raise ValueError(msg)
    return value


Engine = Annotated[
    str, AfterValidator(lambda v: _one_of(v, ["auto", *ENGINES.names()]))
]
Method = Annotated[str, AfterValidator(lambda v: _one_of(v, ESTIMATORS.names()))]
SinkNames = Annotated[Names, AfterValidator(_sinks)]
Tag = Annotated[str, AfterValidator(_legal_tag)]


class Settings(BaseSettings):
    """What the operator decided; frozen, and valid as a whole."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", validate_default=False
    )

    enabled: bool = Field(
        True, description="`false`: stay up and healthy, but poll and publish nothing."
    )
    targets: Annotated[Names, AfterValidator(_targets)] = Field(
        (),
        description="The workers' pages, comma separated: URLs, `host:port` or ports.",
        examples=["127.0.0.1:8000"],
    )
    metrics_port: Port | None = Field(
        None, description="The port of the worker's page on this machine or pod."
    )
    discovery: Literal["auto", "ports"] = Field(
        "auto",
        description="How to look for workers where no port is set. `auto`: Dynamo's "
        "variables, the process table, then ports 8000, 9090 and 8081. `ports`: every "
        "listening port as well.",
    )
    engine: Engine = Field(
        "auto", description=f"The page's dialect: auto, {', '.join(ENGINES.builtin)}."
    )
    metrics_path: Annotated[str, AfterValidator(_path)] | None = Field(
        None,
        description="The page's path, where it is not `/metrics`.",
        examples=["/prometheus/metrics"],
    )
    bearer_token: Token = Field(
        None, description="Token that the worker's page asks for."
    )
    tls_ca_file: CertificateFile | None = Field(
        None, description="Certificates to trust for an https worker, in PEM."
    )
    tls_skip_verify: bool = Field(
        False, description="`true`: accept any certificate of an https worker."
    )
    poll_interval: Annotated[Seconds, AfterValidator(_poll)] = Field(
        5.0, description="How often to read each worker, 100ms to 1h."
    )
    scrape_timeout: Annotated[Seconds, AfterValidator(_scrape)] | None = Field(
        None,
        description="How long one read may take, first byte to last, at most 20s. "
        "Default: 80 % of the poll interval, at most 10 s.",
    )
    multiplier: Positive = Field(
        1.0,
        description="Factor on the capacity for the signal. 1 publishes requests/s; T "
        "publishes the requests that a worker absorbs in T seconds.",
    )
    min_capacity: Positive | None = Field(
        None,
        description="The signal is never below it. Default: 1 with `rate`, else none.",
    )
    estimator: Method = Field(
        "curve",
        description="How the capacity is estimated: `curve`, from light load too; "
        "`rate`, the rate seen, as Apache Beam publishes it.",
    )
    rate_aggregation: Annotated[str, AfterValidator(_aggregation)] = Field(
        "lifetime_max",
        description="With `rate`: lifetime_max, max, mean, last, or p0 to p100.",
    )
    rate_window: Seconds = Field(
        60.0, description="With `rate`: how far back the aggregation looks."
    )
    max_concurrency: Positive | None = Field(
        None,
        description="The most requests the worker runs at once: `--max-num-seqs` times "
        "the data-parallel size. Default: found out.",
    )
    latency_objective: Seconds | None = Field(
        None,
        description="Mean time in service to keep. Capacity then is what the worker "
        "sustains within it.",
    )
    state_file: OwnFile | None = Field(
        None,
        description="File that keeps what was learned over a restart, and starts a new "
        "replica of the same model, engine and KV cache. Default: none.",
        examples=["/var/lib/capacity-sidecar/state.json"],
    )
    tag: Tag | None = Field(
        None, description="The end of the signal's name, `num_loaded_models_<tag>`."
    )
    model_identifier: Tag | None = Field(
        None, description="The tag where `SIDECAR_TAG` is not set; used as it is."
    )
    worker: str | None = Field(
        None,
        description="The `worker` label. Default: host name and port. With several "
        "workers the port is added.",
    )
    labels: Annotated[LabelMap, AfterValidator(_own_labels)] = Field(
        {},
        description="More labels for every series, `name=value`, comma separated.",
        examples=["cluster=eu1,gpu=l4"],
    )
    sinks: SinkNames | None = Field(
        None,
        description="Where readings go. Default: the own page, and each sink whose "
        f"address is set. Of: {', '.join(SINKS.builtin)}.",
        examples=["prometheus,stdout"],
    )
    listen: Annotated[str, AfterValidator(_address)] = Field(
        target.OWN_PAGE,
        description="Address of the own page, /healthz, /readyz, /status; or `off`.",
    )
    retire_after: Seconds = Field(
        60.0,
        description="How long a worker may be unreachable before its series are taken "
        "away.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe log lines to write."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto`: text on a terminal, else JSON."
    )
    pushgateway: PushgatewaySettings = PushgatewaySettings()
    cloud_monitoring: CloudMonitoringSettings = CloudMonitoringSettings()

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.scrape_timeout and self.scrape_timeout > self.poll_interval:
            msg = (
                f"SIDECAR_SCRAPE_TIMEOUT={self.scrape_timeout:g}s is longer than "
                f"SIDECAR_POLL_INTERVAL={self.poll_interval:g}s; make it shorter"
            )
            raise ValueError(msg)
        return self

    @property
    def minimum(self) -> float:
        """The floor of the signal; the seed's is 1."""
        if self.min_capacity is not None:
            return self.min_capacity
        return 1.0 if self.estimator == "rate" else 0.0

    @property
    def scrape_limit(self) -> float:
        """How long one read may take, seconds."""
        return self.scrape_timeout or min(USUAL_SCRAPE, 0.8 * self.poll_interval)

    @property
    def longest_gap(self) -> float:
        """Seconds without a good poll after which a worker's series are retired."""
        return max(self.retire_after, 2 * self.poll_interval)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what ``environment.load`` gives: it must name every wrong variable at
        once, find misspelt ones, and tell where each value came from."""
        return (init_settings,)
