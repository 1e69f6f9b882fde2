"""Series as a sink writes them, good ones unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp.series import SeriesKey

NOW = 1_000_000.0
"""Unix seconds."""

PROJECT = "projects/a-project"
METRIC = "custom.googleapis.com/llm_worker_utilization"
RESOURCE = "gce_instance"
PLACE: Mapping[str, str] = {"instance_id": "4520031799277581759", "zone": "us-east1-b"}

KEY = SeriesKey(METRIC, (), RESOURCE, tuple(sorted(PLACE.items())))
"""Of `gauge` without arguments."""

ONE = {"interval": {"end_time": {"seconds": int(NOW)}}, "value": {"double_value": 1.0}}
"""A point."""


def gauge(
    value: float = 0.5,
    *,
    end: float = NOW,
    metric: str = METRIC,
    labels: Mapping[str, str] | None = None,
    resource: str = RESOURCE,
    place: Mapping[str, str] = PLACE,
    **more: Any,
) -> TimeSeries:
    """A series with one DOUBLE.

    Args:
        end: Unix seconds, of a whole number of milliseconds.
        labels: of the metric.
        place: labels of the resource.
        more: fields of the series, in place of those above.
    """
    moment = {"seconds": int(end), "nanos": round(end % 1 * 1000) * 1_000_000}
    fields = {
        "metric": {"type": metric, "labels": labels or {}},
        "resource": {"type": resource, "labels": place},
        "points": [
            {"interval": {"end_time": moment}, "value": {"double_value": value}}
        ],
    }
    return TimeSeries({**fields, **more})
