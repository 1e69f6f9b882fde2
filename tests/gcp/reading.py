"""ListTimeSeries: the part of its filter language that an autoscaler may use."""

from __future__ import annotations

import re

from google.api.metric_pb2 import Metric, MetricDescriptor
from google.api.monitored_resource_pb2 import MonitoredResource
from google.cloud.monitoring_v3.types import ListTimeSeriesRequest, TimeSeries

from tests.gcp import answers
from tests.gcp.history import History
from tests.gcp.series import Point, SeriesKey, time_of

_TERM = re.compile(
    r"""\s*(?P<field>metric\.type|resource\.type|(metric|resource)\.labels?\.\w+)
    \s*=\s*(?P<quote>["']?)(?P<value>[^"']*)(?P=quote)\s*""",
    re.VERBOSE,
)


def read(
    request: ListTimeSeriesRequest, history: History, project: str
) -> list[TimeSeries]:
    """The series that fit, newest point first, as the reference says.

    A filter is terms of ``metric.type``, ``resource.type``, ``metric.labels.KEY`` and
    ``resource.labels.KEY``, ``=`` and a value, joined by ``AND``; ``metric.type`` must
    be there. Pages, views, aggregation and order are ignored.

    Raises:
        Answered: the filter is none of that.
    """
    terms = _terms(request.filter)
    end = time_of(request.interval.end_time)
    if end is None:
        text = "Request was missing field interval.endTime."
        raise answers.Answered(answers.invalid(text))
    start = time_of(request.interval.start_time)
    start = end if start is None else start
    found = []
    for key, points in history.accepted.items():
        inside = [each for each in reversed(points) if start <= each.end_time <= end]
        if inside and terms.items() <= _facts(key, project).items():
            value_type = history.value_type(key.metric_type)
            found.append(_series(key, inside, value_type, project))
    return found


def _terms(text: str) -> dict[str, str]:
    terms = {}
    for term in re.split(r"\bAND\b", text):
        match = _TERM.fullmatch(term)
        if match is None:
            message = f'Field filter had an invalid value of "{text}": {term!r}.'
            raise answers.Answered(answers.invalid(message))
        field = match["field"].replace(".label.", ".labels.")
        terms[field] = match["value"].strip()
    if "metric.type" not in terms:
        message = f'Field filter had an invalid value of "{text}": must specify '
        message += "exactly one metric.type."
        raise answers.Answered(answers.invalid(message))
    return terms


def _facts(key: SeriesKey, project: str) -> dict[str, str]:
    facts = {"metric.type": key.metric_type, "resource.type": key.resource_type}
    facts["resource.labels.project_id"] = project
    facts.update((f"metric.labels.{name}", value) for name, value in key.metric_labels)
    for name, value in key.resource_labels:
        facts[f"resource.labels.{name}"] = value
    return facts


def _series(
    key: SeriesKey, points: list[Point], value_type: str, project: str
) -> TimeSeries:
    return TimeSeries(
        metric=Metric(type=key.metric_type, labels=dict(key.metric_labels)),
        resource=MonitoredResource(
            type=key.resource_type,
            labels={"project_id": project, **dict(key.resource_labels)},
        ),
        metric_kind=MetricDescriptor.MetricKind.GAUGE,
        value_type=MetricDescriptor.ValueType.Value(value_type),
        points=[_point(each, value_type) for each in points],
    )


def _point(point: Point, value_type: str) -> dict[str, object]:
    nanoseconds = round(point.end_time * 1e6) * 1000
    moment = {"seconds": nanoseconds // 10**9, "nanos": nanoseconds % 10**9}
    value = {"double_value": point.value}
    if value_type == "INT64":
        value = {"int64_value": int(point.value)}
    return {"interval": {"start_time": moment, "end_time": moment}, "value": value}
