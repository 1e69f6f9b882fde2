"""The answer when some series of a request could not be written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import grpc
from google.cloud.monitoring_v3.types import CreateTimeSeriesSummary, TimeSeries
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from tests.gcp import answers
from tests.gcp.refusals import Refused

_LONGEST = 50_000
"""Bytes of a message on the wire. Headers carry it twice, and a client that takes no
larger ones than usual, 8 kB in all, gets another error."""


Refusals = Mapping[int, tuple[TimeSeries, Refused]]
"""Index of a series in its request -> the series and the reason."""


def partly_written(request: Sequence[TimeSeries], refused: Refusals) -> Status:
    """Some series could not be written: opentelemetry-operations-python #431 and -go
    #1029 (points), opentelemetry-collector-contrib #36228 (fields).
    """
    code = grpc.StatusCode.INVALID_ARGUMENT
    total = sum(_points(series) for series in request)
    failed = sum(_points(series) for series, _ in refused.values())
    summary = CreateTimeSeriesSummary(
        total_point_count=total,
        success_point_count=total - failed,
        errors=[{"status": Status(code=code.value[0]), "point_count": failed}],
    )
    groups: dict[tuple[str, str], list[int]] = {}
    for index, (series, reason) in refused.items():
        resource = _resource(series) if reason.at_write else ""
        groups.setdefault((resource, reason.text), []).append(index)
    reasons = [
        _reason(resource, indices, *refused[indices[0]])
        for (resource, _), indices in groups.items()
    ]
    text = f"One or more TimeSeries could not be written: {'; '.join(reasons)}"
    return answers.status(code, _shortened(text), CreateTimeSeriesSummary.pb(summary))


def _points(series: TimeSeries) -> int:
    """A series without a point counts, too: the summary would show no error."""
    return max(1, len(series.points))


def _reason(
    resource: str, indices: Sequence[int], series: TimeSeries, reason: Refused
) -> str:
    where = f"timeSeries[{_ranges(indices)}]"
    if not resource:
        return f"{where}: {reason.text}"
    labels = json.dumps(dict(series.metric.labels), ensure_ascii=False, sort_keys=True)
    example = f'metric.type="{series.metric.type}", metric.labels={labels}'
    said = f"{reason.text}{reason.detail}"
    failure = f"write for resource={resource} failed with: {said}"
    return f"{where} (example {example}): {failure}"


def _resource(series: TimeSeries) -> str:
    labels = ",".join(
        f"{name}:{value}"
        for name, value in sorted(dict(series.resource.labels).items())
    )
    return f"{series.resource.type}{{{labels}}}"


def _ranges(indices: Sequence[int]) -> str:
    """``0-2,5`` for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1][1:] = [index]
        else:
            runs.append([index])
    return ",".join("-".join(map(str, run)) for run in runs)


def _shortened(text: str) -> str:
    while len(quote(text)) > _LONGEST:
        text = text[: len(text) * 3 // 4]
    return text
