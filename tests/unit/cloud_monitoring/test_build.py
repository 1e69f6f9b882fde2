from __future__ import annotations

import os
import sys

import pytest

from sidecar import environment, sinks
from sidecar.errors import SettingsError

ALONE = {"SIDECAR_SINKS": "cloud_monitoring"}


def test_a_project_switches_it_on() -> None:
    environ = {"SIDECAR_CLOUD_MONITORING_PROJECT": "a-project"}
    settings = environment.load(environ).settings

    assert sinks.chosen(settings) == ["prometheus", "cloud_monitoring"]


def test_nothing_is_connected_at_the_start() -> None:
    sink = sinks.build("cloud_monitoring", environment.load(ALONE).settings)

    assert sink.interval == 10.0
    sink.close()


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if "cloud_monitoring" in name]:
        if name != "sidecar.sinks.cloud_monitoring":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.cloud.monitoring_v3", None)

    with pytest.raises(SettingsError, match=r"pip install 'capacity-sidecar\[gcp\]'"):
        sinks.build("cloud_monitoring", environment.load(ALONE).settings)


def test_the_host_s_environment_is_left_alone() -> None:
    """It may be the worker's own process."""
    before = dict(os.environ)
    sinks.build("cloud_monitoring", environment.load(ALONE).settings).close()

    assert dict(os.environ) == before
