from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from google.api.metric_pb2 import MetricDescriptor
from google.cloud.monitoring_v3.types import TimeInterval, TimeSeries

from sidecar.errors import SettingsError
from sidecar.identity import Resource
from sidecar.reading import Identity, Values
from sidecar.sink_settings import METRIC_WORDS, CloudMonitoringSettings
from sidecar.sinks.cloud_monitoring.series import (
    LONGEST_KEY,
    LONGEST_VALUE,
    refuse_labels,
    series,
)
from tests.unit.makers import reading

WHERE = Resource("gce_instance", {"instance_id": "1", "zone": "us-central1-a"})
PREFIX = "custom.googleapis.com"
DEFAULT = CloudMonitoringSettings().metrics


def made(identity: Identity, *words: str, end: float = 1e9) -> list[TimeSeries]:
    return list(series(reading(identity), end, words or DEFAULT, PREFIX, WHERE))


def labels(identity: Identity) -> dict[str, str]:
    return dict(made(identity, "capacity")[0].metric.labels)


def test_names_are_one_segment() -> None:
    """So that an HPA can write them bare."""
    types = [each.metric.type for each in made(Identity("m", "org/m", "host:8000"))]

    assert types == [
        "custom.googleapis.com/num_loaded_models_m",
        "custom.googleapis.com/llm_worker_capacity",
        "custom.googleapis.com/llm_worker_utilization",
    ]


def test_a_point_is_a_double_at_one_time() -> None:
    (each,) = made(Identity("m", "org/m", "w"), "capacity", end=1_700_000_000.123)

    assert each.metric_kind == MetricDescriptor.MetricKind.GAUGE
    assert each.value_type == MetricDescriptor.ValueType.DOUBLE
    (point,) = each.points
    assert "double_value" in point.value
    stamp = TimeInterval.pb(point.interval).end_time
    assert (stamp.seconds, stamp.nanos) == (1_700_000_000, 123_000_000)
    assert "start_time" not in point.interval


def test_every_word_has_a_series_and_the_time_has_none() -> None:
    numbers: dict[str, Any] = {
        field.name: 1.0 for field in fields(Values) if field.name != "state"
    }
    full = reading(**numbers)

    found = list(series(full, 1e9, METRIC_WORDS, PREFIX, WHERE))

    assert len(found) == len(METRIC_WORDS)
    assert not any("timestamp" in each.metric.type for each in found)


def test_the_model_s_name_is_kept_as_it_is() -> None:
    assert labels(Identity("m_1", "örg/m:1", "w")) == {
        "tag": "m_1",
        "model_name": "örg/m:1",
        "worker": "w",
    }


def test_no_label_is_empty() -> None:
    assert labels(Identity("unnamed_model", "", "w")) == {
        "tag": "unnamed_model",
        "worker": "w",
    }


def test_what_is_too_long_stays_apart() -> None:
    first = labels(Identity("m", "a" * 2000 + "1", "w"))["model_name"]
    second = labels(Identity("m", "a" * 2000 + "2", "w"))["model_name"]

    assert len(first) == len(second) == LONGEST_VALUE
    assert first != second


def test_names_of_labels_are_the_service_s() -> None:
    odd = (("_hidden", "x"), ("k" * 200, "x"))

    found = labels(Identity("m", "m", "w", odd))
    assert found["key__hidden"] == "x"
    assert max(map(len, found)) == LONGEST_KEY


def test_more_labels_than_it_takes_are_refused_at_the_start() -> None:
    """With the sidecar's own ones they are too many; a few cut off would be missed."""
    refuse_labels([f"n{i}" for i in range(26)])

    with pytest.raises(SettingsError, match="27 labels; Cloud Monitoring takes 26"):
        refuse_labels([f"n{i}" for i in range(27)])


def test_two_that_would_be_one_are_refused() -> None:
    with pytest.raises(SettingsError, match="_x and key__x are one label"):
        refuse_labels(["_x", "key__x"])


def test_what_is_no_unicode_can_be_sent() -> None:
    assert labels(Identity("m", "a\udcffb", "w"))["model_name"] == "a?b"
