"""Readings as time series of Cloud Monitoring: names, labels, values, one point each.

Limits: cloud.google.com/monitoring/quotas and the reference of ``TimeSeries``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Container, Iterator

from google.api.metric_pb2 import Metric, MetricDescriptor
from google.api.monitored_resource_pb2 import MonitoredResource
from google.cloud.monitoring_v3.types import Point, TimeInterval, TimeSeries, TypedValue
from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.errors import SettingsError
from sidecar.exposition import Labels
from sidecar.identity import Resource
from sidecar.reading import OWN_LABELS, Reading, gauges
from sidecar.sink_settings import metric_word

MOST_LABELS, LONGEST_KEY, LONGEST_VALUE = 30, 100, 1024
_HASH_LENGTH = 8


def refuse_labels(names: Collection[str]) -> None:
    """Whether every series can have these labels of the operator's.

    Raises:
        SettingsError: there are too many, or two would become one.
    """
    most = MOST_LABELS - len(OWN_LABELS)
    if len(names) > most:
        msg = f"SIDECAR_LABELS has {len(names)} labels; Cloud Monitoring takes {most} "
        raise SettingsError(f"{msg}beside the sidecar's own")
    keys: dict[str, str] = {}
    for name in (*OWN_LABELS, *names):
        if (other := keys.setdefault(_key(name), name)) != name:
            msg = (
                f"SIDECAR_LABELS: {other} and {name} are one label in Cloud Monitoring"
            )
            raise SettingsError(f"{msg}; rename one")


def series(
    reading: Reading,
    end: float,
    words: Container[str],
    prefix: str,
    resource: Resource,
) -> Iterator[TimeSeries]:
    """A series for each chosen number of the reading.

    Args:
        end: the points' end time, Unix seconds.
        words: the numbers to write, see ``sink_settings.metric_word``.
        prefix: of the metric types, such as ``custom.googleapis.com``.
    """
    where = MonitoredResource(type=resource.type, labels=dict(resource.labels))
    interval = TimeInterval(end_time=_timestamp(end))
    for gauge in gauges(reading):
        if metric_word(gauge.name) not in words:
            continue
        # The first point fixes the type for good, so it is always a DOUBLE.
        value = TypedValue(double_value=float(gauge.value))
        yield TimeSeries(
            metric=Metric(type=f"{prefix}/{gauge.name}", labels=_labels(gauge.labels)),
            resource=where,
            metric_kind=MetricDescriptor.MetricKind.GAUGE,
            value_type=MetricDescriptor.ValueType.DOUBLE,
            points=[Point(interval=interval, value=value)],
        )


def _timestamp(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(round(seconds * 1000))
    return stamp


def _labels(labels: Labels) -> dict[str, str]:
    """Labels within the limits; two values that differ stay two."""
    return {_key(name): _value(value) for name, value in labels if value}


def _key(name: str) -> str:
    key = re.sub(r"\W", "_", name, flags=re.ASCII)
    key = key if key[0].isalpha() else f"key_{key}"
    return key[:LONGEST_KEY]


def _value(value: str) -> str:
    """At most 1024 characters; a longer value ends in a hash of the whole."""
    text = value.encode("utf-8", "replace").decode()
    if len(text) <= LONGEST_VALUE:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{text[: LONGEST_VALUE - _HASH_LENGTH - 1]}_{digest}"
