"""The compose file, run by podman-compose with Debian's Prometheus and Pushgateway.

Grafana is left out: there is no package of it to make an image from.
"""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.packaging.debian_tree import CACHE
from tests.packaging.documents import PACKAGING
from tests.packaging.image import engine
from tests.packaging.image.network import network_of
from tests.packaging.image.stand_ins import stand_in
from tests.process.debian import binary
from tests.process.waiting import until
from tests.process.web import fetch_json

pytestmark = pytest.mark.packaging

COMPOSE = PACKAGING / "compose" / "compose.yaml"
SERVICES = ("worker", "sidecar", "pushgateway", "prometheus")
PROJECT = "capacity-test"
TOOL = "podman-compose==1.6.0"
PROMETHEUS = "http://127.0.0.1:9090"


class Compose:
    """podman-compose, and the compose file without ports on this machine."""

    def __init__(self, program: Path, directory: Path) -> None:
        override = directory / "override.yaml"
        lines = ["services:"]
        for name in SERVICES[:1] + SERVICES[2:]:
            lines += [f"  {name}:", "    ports: !override []"]
        override.write_text("\n".join(lines), "utf-8")
        self._command = [
            str(program),
            f"--podman-args={' '.join(engine.PODMAN)}",
            f"--podman-run-args={' '.join(engine.LIMITS)}",
            *("--in-pod=false", f"--project-name={PROJECT}"),
            *(f"--file={COMPOSE}", f"--file={override}"),
        ]

    def run(self, *arguments: str) -> None:
        """Run a command of it to its end."""
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.fixture(scope="module")
def program() -> Path:
    """podman-compose, in a virtual environment of its own."""
    folder = CACHE.parent / "podman-compose"
    found = folder / "bin" / "podman-compose"
    if not found.exists():
        venv.create(folder, with_pip=True)
        install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", TOOL]
        subprocess.run(install, check=True)
    return found


@pytest.fixture
def up(image: str, program: Path, tmp_path: Path) -> Iterator[None]:
    """All services but Grafana, started."""
    binary("iptables", "iptables netavark aardvark-dns")
    engine.buildah("tag", image, "localhost/capacity-sidecar:latest")
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    for name in ("prometheus", "pushgateway"):
        stand_in(services[name]["image"])
    compose = Compose(program, tmp_path)
    try:
        compose.run("up", "--detach", "--no-build", *SERVICES)
        yield
    finally:
        compose.run("down", "--volumes")


def _query(promql: str) -> list[str]:
    try:
        answer = fetch_json(f"{PROMETHEUS}/api/v1/query", query=promql)
    except OSError:
        return []
    return [series["value"][1] for series in answer["data"]["result"]]


def _name(service: str) -> str:
    return f"{PROJECT}_{service}_1"


@pytest.mark.usefixtures("up")
class TestCompose:
    def test_numbers_reach_prometheus_on_both_ways(self) -> None:
        prometheus = engine.inspect("container", _name("prometheus"))
        with network_of(prometheus["State"]["Pid"]):
            until(
                lambda: len(_query("llm_worker_utilization > 0")) == 2,
                "utilization, scraped and pushed",
                60,
            )
            until(lambda: _query("llm_pool:capacity:sum > 0"), "the rules", 60)
            workers = _query("llm_pool:workers:count")

        assert workers == ["1"]
        for name in SERVICES:
            probe = engine.podman("healthcheck", "run", _name(name))
            assert probe.returncode == 0, f"{name}: {probe.stdout} {probe.stderr}"
