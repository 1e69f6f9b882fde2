"""What was written, and what that forbids: order, gaps, value types, labels."""

from __future__ import annotations

from collections.abc import Sequence

from google.cloud.monitoring_v3.types import TimeSeries

from tests.gcp import answers, partial, rules
from tests.gcp.refusals import Refused, stamp, wrong_field
from tests.gcp.series import Accepted, Point, SeriesKey, key_of, point_of, value_type_of

SMALLEST_GAP = 5.0
"""Seconds between the end times of two points of a series (quotas page)."""

_MILLISECOND = 0.001


class History:
    """The series of one project.

    Args:
        projects: the project's id and its number.

    Attributes:
        accepted: the points of each series, in order.
    """

    def __init__(self, projects: tuple[str, ...]) -> None:
        self.accepted: Accepted = {}
        self._projects = projects
        self._value_types: dict[str, str] = {}
        self._label_keys: dict[str, set[str]] = {}

    def write(self, request: Sequence[TimeSeries], now: float) -> None:
        """Write the series that keep the rules.

        Args:
            request: all series of a request.
            now: Unix seconds.

        Raises:
            Answered: at least one did not; the others are written.
        """
        refused: dict[int, tuple[TimeSeries, Refused]] = {}
        seen: set[SeriesKey] = set()
        for index, series in enumerate(request):
            try:
                self._write(index, series, seen, now)
            except Refused as reason:
                refused[index] = (series, reason)
        if refused:
            raise answers.Answered(partial.partly_written(request, refused))

    def value_type(self, metric_type: str) -> str:
        """``DOUBLE`` or ``INT64``, of a metric type that was written."""
        return self._value_types[metric_type]

    def _write(
        self, index: int, series: TimeSeries, seen: set[SeriesKey], now: float
    ) -> None:
        key = key_of(series)
        if key in seen:
            # clusterfuzz #4584
            text = (
                "Duplicate TimeSeries encountered. Only one point can be written per "
            )
            raise wrong_field(index, "", None, f"{text}TimeSeries per request.")
        seen.add(key)
        rules.check(index, series, self._projects, now)
        self._check_descriptor(series)
        point = point_of(series)
        if key in self.accepted:
            _check_follows(key.metric_type, self.accepted[key][-1], point)
        self.accepted.setdefault(key, []).append(point)
        self._value_types[key.metric_type] = value_type_of(series)
        keys = self._label_keys.setdefault(key.metric_type, set())
        keys.update(series.metric.labels)

    def _check_descriptor(self, series: TimeSeries) -> None:
        """The first point of a metric type makes its descriptor, for good."""
        metric_type = series.metric.type
        known = self._value_types.get(metric_type, value_type_of(series))
        if value_type_of(series) != known:
            # opentelemetry-collector-contrib #36228
            text = f"Value type for metric {metric_type} conflicts with the existing "
            raise Refused(f"{text}value type ({known}).")
        keys = self._label_keys.get(metric_type, set()) | set(series.metric.labels)
        if len(keys) > rules.MOST_LABELS:
            # prometheus-engine #493
            text = f"The new labels would cause the metric {metric_type} to have over "
            raise Refused(f"{text}{rules.MOST_LABELS} labels.")


def _check_follows(metric_type: str, last: Point, new: Point) -> None:
    gap = new.end_time - last.end_time
    if gap < _MILLISECOND:
        # python-monitoring #57
        text = "Points must be written in order. One or more of the points specified "
        text += "had an older end time than the most recent point."
        raise Refused(text, at_write=True)
    if round(gap, 3) < SMALLEST_GAP:
        # opentelemetry-operations-python #431
        text = "One or more points were written more frequently than the maximum "
        text += "sampling period configured for the metric."
        youngest, newest = stamp(last.end_time), stamp(new.end_time)
        times = f"{{Youngest Existing: '{youngest}', New: '{newest}'}}"
        detail = f" {{Metric: {metric_type}, Timestamps: {times}}}"
        raise Refused(text, detail, at_write=True)
