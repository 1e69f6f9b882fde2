from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from sidecar import environment, registry, sinks
from sidecar.registry import ENGINES, ESTIMATORS, SINKS
from sidecar.sinks.stdout import StdoutSink


def build(_: object) -> StdoutSink:
    """A third party's sink."""
    return StdoutSink()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings a sink, and tries to replace one of ours."""

    def entry_points(group: str) -> list[EntryPoint]:
        names = ("kafka", "prometheus") if group == SINKS.group else ()
        return [EntryPoint(name, f"{__name__}:build", group) for name in names]

    monkeypatch.setattr(registry, "entry_points", entry_points)


class TestRegistry:
    @pytest.mark.parametrize("kind", [ENGINES, ESTIMATORS, SINKS])
    def test_everything_of_ours_can_be_loaded(self, kind: registry.Registry) -> None:
        assert all(kind.load(name) for name in kind.builtin)

    def test_what_is_not_known(self) -> None:
        with pytest.raises(KeyError):
            SINKS.load("kafka")

    @pytest.mark.usefixtures("installed")
    def test_a_third_partys_sink_by_its_entry_point(self) -> None:
        settings = environment.load({"SIDECAR_SINKS": "kafka"}).settings

        assert SINKS.names()[-1] == "kafka"
        assert isinstance(sinks.build("kafka", settings), StdoutSink)

    @pytest.mark.usefixtures("installed")
    def test_ours_cannot_be_replaced(self) -> None:
        settings = environment.load({}).settings

        assert not isinstance(sinks.build("prometheus", settings), StdoutSink)
