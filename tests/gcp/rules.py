"""What Cloud Monitoring demands of one series to be written, its history aside.

From the reference of TimeSeries, TimeInterval and LabelDescriptor and the quotas page;
texts from public issues, named where known. A text without a source is made up in the
style of the others.
"""

from __future__ import annotations

import math
import re

from google.api.metric_pb2 import MetricDescriptor
from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp import resources
from tests.gcp.refusals import Refused, iso, wrong_field
from tests.gcp.series import end_of, time_of, value_of, value_type_of

MOST_SERIES = 200
"""In one request."""

MOST_LABELS = 30
"""Label keys of one metric type, over all its series."""

LONGEST_METRIC_TYPE = 200
LONGEST_LABEL_KEY = 100
LONGEST_LABEL_VALUE = 1024
"""Characters."""

OLDEST = 25 * 3600.0
"""Seconds that an end time may be past. The server allows 10 s more."""

NEWEST = 300.0
"""Seconds that an end time may be ahead."""

_METRIC_TYPE = re.compile(r"[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9_.-]+)+")
_OURS = (
    "custom.googleapis.com/",
    "workload.googleapis.com/",
    "external.googleapis.com/",
)
_LABEL_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_NUMBERS = ("DOUBLE", "INT64")


def check(
    index: int, series: TimeSeries, projects: tuple[str, ...], now: float
) -> None:
    """Check all that can be said of a series alone.

    Args:
        index: of the series in its request.
        projects: the id and the number of the request's project.
        now: Unix seconds.

    Raises:
        Refused: it breaks a rule.
    """
    _check_metric_type(index, series.metric.type)
    _check_labels(index, dict(series.metric.labels))
    _check_points(index, series)
    _check_value(index, series)
    _check_interval(index, series, now)
    resources.check(index, series, projects)


def _check_metric_type(index: int, metric_type: str) -> None:
    def refused(text: str) -> Refused:
        return wrong_field(index, "metric.type", metric_type, text)

    if not _METRIC_TYPE.fullmatch(metric_type):
        # stackdriver-prometheus-sidecar #255
        text = "The metric type must be a URL-formatted string with a domain and "
        raise refused(f"{text}non-empty path.")
    if not metric_type.startswith(_OURS):
        raise refused("The metric type is not one that users may write.")
    if len(metric_type) > LONGEST_METRIC_TYPE:
        raise refused(f"Must be at most {LONGEST_METRIC_TYPE} characters long.")


def _check_labels(index: int, labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            # opentelemetry-operations-go #98; #498 found that 7bar is refused
            text = "Label key contains invalid characters."
            raise wrong_field(index, "metric.labels", key, text)
        if len(key) > LONGEST_LABEL_KEY:
            text = f"Label key is longer than {LONGEST_LABEL_KEY} characters."
            raise wrong_field(index, "metric.labels", key, text)
        if len(value) > LONGEST_LABEL_VALUE:
            text = f"Label value is longer than {LONGEST_LABEL_VALUE} characters."
            raise wrong_field(index, f"metric.labels[{key}]", value, text)


def _check_points(index: int, series: TimeSeries) -> None:
    if len(series.points) != 1:
        text = f"Exactly one point must be written, but there are {len(series.points)}."
        raise wrong_field(index, "points", None, text)
    kinds = MetricDescriptor.MetricKind
    if series.metric_kind not in (kinds.METRIC_KIND_UNSPECIFIED, kinds.GAUGE):
        name = kinds.Name(series.metric_kind)
        text = "this double of Cloud Monitoring takes gauges only"
        raise wrong_field(index, "metric_kind", name, text)


def _check_value(index: int, series: TimeSeries) -> None:
    given = value_type_of(series)
    if not given:
        raise Refused(f"Request was missing field timeSeries[{index}].points[0].value.")
    if given not in _NUMBERS:
        text = "this double of Cloud Monitoring takes DOUBLE and INT64 only"
        raise wrong_field(index, "points[0].value", given, text)
    said = MetricDescriptor.ValueType.Name(series.value_type)
    if said not in ("VALUE_TYPE_UNSPECIFIED", given):
        # micrometer #2160
        raise Refused(
            f"Value type for metric {series.metric.type} must be {said}, "
            f"but is {given}."
        )
    value = value_of(series)
    if not math.isfinite(value):
        # prometheus-engine #144 has it of a distribution's mean
        text = f"Double value that is non-finite: {value}."
        raise wrong_field(index, "points[0].doubleValue", None, text)


def _check_interval(index: int, series: TimeSeries, now: float) -> None:
    path = "points[0].interval"
    start, end = time_of(series.points[0].interval.start_time), end_of(series)
    if end is None:
        # The reference's troubleshooting page
        raise Refused(f"Request was missing field timeSeries[{index}].{path}.endTime.")
    if start not in (None, end):
        text = f"The start time must be equal to the end time ({iso(end)}) for the "
        text += f"gauge metric '{series.metric.type}'."
        raise wrong_field(index, f"{path}.start_time", iso(start or 0.0), text)
    if end < now - OLDEST:
        # slo-generator #98
        text = "Data points cannot be written more than 25h10s in the past."
        raise wrong_field(index, f"{path}.end_time", iso(end), text)
    if end > now + NEWEST:
        text = "Data points cannot be written more than 5m in the future."
        raise wrong_field(index, f"{path}.end_time", iso(end), text)
