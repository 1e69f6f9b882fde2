"""What a time series is called, and one point of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from google.cloud.monitoring_v3.types import TimeSeries, TypedValue

Labels = tuple[tuple[str, str], ...]
"""Pairs of name and value, sorted by name."""


class SeriesKey(NamedTuple):
    """The identity of a series; the resource's ``project_id`` is left out.

    It is the project of the request, said or not (google-cloud-python #2071), so a
    series that says it and one that does not are the same series.
    """

    metric_type: str
    metric_labels: Labels
    resource_type: str
    resource_labels: Labels


class Point(NamedTuple):
    """A gauge's point; ``end_time`` in Unix seconds."""

    end_time: float
    value: float


Accepted = dict[SeriesKey, list[Point]]
"""What was written, oldest point first."""


def key_of(series: TimeSeries) -> SeriesKey:
    """The series' identity."""
    resource = dict(series.resource.labels)
    resource.pop("project_id", None)
    return SeriesKey(
        series.metric.type,
        tuple(sorted(dict(series.metric.labels).items())),
        series.resource.type,
        tuple(sorted(resource.items())),
    )


def value_field_of(series: TimeSeries) -> str:
    """The field that its only point's value is in, ``double_value`` say, or ``""``."""
    return TypedValue.pb(series.points[0].value).WhichOneof("value") or ""


def value_type_of(series: TimeSeries) -> str:
    """The type of its only point's value: ``DOUBLE``, ``INT64``, ..."""
    return value_field_of(series).removesuffix("_value").upper()


def time_of(moment: Any) -> float | None:
    """Unix seconds of a timestamp as proto-plus gives it; None: it is not there."""
    return None if moment is None else float(moment.timestamp())


def end_of(series: TimeSeries) -> float | None:
    """The end time of its only point."""
    return time_of(series.points[0].interval.end_time)


def value_of(series: TimeSeries) -> float:
    """The value of its only point."""
    return float(getattr(series.points[0].value, value_field_of(series)))


def point_of(series: TimeSeries) -> Point:
    """Its only point, which has an end time."""
    end = end_of(series)
    assert end is not None
    return Point(end, value_of(series))
