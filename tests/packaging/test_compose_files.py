"""The compose files as text; tests/packaging/image runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.environment import variables
from tests.packaging.documents import PACKAGING, documents

FOLDER = PACKAGING / "compose"
FILES = ("compose.yaml", "gpu.yaml")


def services() -> Iterator[dict[str, Any]]:
    for name in FILES:
        (document,) = documents(FOLDER / name)
        yield from document["services"].values()


class TestCompose:
    def test_settings_are_the_sidecars(self) -> None:
        given = {name for each in services() for name in each.get("environment", {})}
        used = {name for name in given if name.startswith("SIDECAR_")}

        assert used <= {variable.name for variable in variables()}
        assert "SIDECAR_MAX_CONCURRENCY" in used

    def test_ports_are_for_this_machine_only(self) -> None:
        ports = [port for each in services() for port in each.get("ports", ())]

        assert ports
        assert [port for port in ports if not port.startswith("127.0.0.1:")] == []

    def test_images_have_versions(self) -> None:
        images = {each["image"] for each in services() if "image" in each}

        unversioned = {i for i in images if not re.search(r":v?\d+\.\d+\.\d+$", i)}
        assert unversioned == {"capacity-sidecar"}

    def test_files_that_are_mounted_are_there(self) -> None:
        mounted = [
            volume.partition(":")[0]
            for each in services()
            for volume in each.get("volumes", ())
            if volume.startswith(".")
        ]

        assert "../grafana" in mounted
        assert [path for path in mounted if not (FOLDER / path).exists()] == []

    @pytest.mark.parametrize("name", ["datasource.yaml", "dashboards.yaml"])
    def test_grafana_is_provisioned(self, name: str) -> None:
        (document,) = documents(FOLDER / "grafana" / name)

        assert document["apiVersion"] == 1
