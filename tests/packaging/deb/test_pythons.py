"""The installed tree under every Python that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.simulator import SimulatedWorker
from tests.gcp.metric_service import MetricService
from tests.process.commands import environ
from tests.process.sockets import reserved_port
from tests.process.waiting import until
from tests.process.web import answers
from tests.process.workers import SIGNAL

pytestmark = pytest.mark.packaging

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def find(version: str) -> Path:
    """Return that Python; skip where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    named = shutil.which(f"python{version}")
    for path in [*places, *([Path(named)] if named else [])]:
        # pyenv's shims answer only for versions that are switched on.
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"Python {version} is not on this machine")


@pytest.fixture(scope="module", params=PYTHONS)
def command(
    request: pytest.FixtureRequest,
    content: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Sequence[str]:
    """The installed command under one Python, with the tree where it was unpacked."""
    python = find(request.param)
    installed = (content / "usr" / "bin" / "capacity-sidecar").read_text("utf-8")
    first = installed.splitlines()[0]
    moved = tmp_path_factory.mktemp("bin") / "capacity-sidecar"
    moved.write_text(installed.replace('"/usr/lib/', f'"{content}/usr/lib/'), "utf-8")
    return [str(python), first.split()[1], str(moved)]


def run(command: Sequence[str], *arguments: str, **settings: str) -> str:
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environ(settings)
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_it_says_its_version(command: Sequence[str]) -> None:
    assert run(command, "--version") == f"capacity-sidecar {__version__}\n"


def test_it_finds_a_worker(command: Sequence[str], worker: SimulatedWorker) -> None:
    assert SIGNAL in run(command, "check", SIDECAR_TARGETS=worker.url)


def test_it_writes_to_cloud_monitoring(
    command: Sequence[str], worker: SimulatedWorker, service: MetricService
) -> None:
    run(
        command,
        "once",
        SIDECAR_TARGETS=worker.url,
        SIDECAR_POLL_INTERVAL="1s",
        SIDECAR_CLOUD_MONITORING_PROJECT="a-project",
        SIDECAR_CLOUD_MONITORING_ENDPOINT=service.endpoint,
        SIDECAR_CLOUD_MONITORING_INSECURE="true",
        SIDECAR_CLOUD_MONITORING_RESOURCE_TYPE="generic_task",
    )

    types = {key.metric_type for key in service.accepted}
    assert f"custom.googleapis.com/{SIGNAL}" in types


def test_it_stops_when_asked(command: Sequence[str]) -> None:
    with reserved_port() as port:
        listen = {"SIDECAR_LISTEN": f"127.0.0.1:{port}"}
        daemon = subprocess.Popen([*command, "run"], env=environ(listen))
        try:
            page = f"http://127.0.0.1:{port}/healthz"
            until(lambda: answers(page), "the daemon serves")
            daemon.terminate()
            assert daemon.wait(5) == 0
        finally:
            daemon.kill()
            daemon.wait()


def test_it_leaves_nothing_in_the_tree(command: Sequence[str], content: Path) -> None:
    run(command, "--version")

    assert list(content.rglob("__pycache__")) == []
