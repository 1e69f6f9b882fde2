"""The wheel: what is in it, and that pip and pipx make a command of it."""

from __future__ import annotations

import subprocess
import sys
import venv
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

from sidecar import __version__
from sidecar.simulator import SimulatedWorker
from tests.packaging.documents import ROOT
from tests.process.commands import Finished, environ
from tests.process.workers import fast_worker

pytestmark = pytest.mark.packaging

PIPX = "pipx==1.8.0"


def run(*command: str | Path, **variables: str) -> Finished:
    """A command to its end, in no checkout and with no settings but these."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd="/",
        env=environ(variables),
    )


def environment(folder: Path) -> Path:
    """The Python of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def installed(python: Path, *requirements: str | Path) -> None:
    done = run(python, "-m", "pip", "install", "--quiet", *requirements)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a user's pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir")
    done = run(sys.executable, *build, folder, ROOT)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.iterdir()
    return wheel


class TestTheWheel:
    def test_has_the_package_and_nothing_else(self, wheel: Path) -> None:
        names = ZipFile(wheel).namelist()

        information = f"capacity_sidecar-{__version__}.dist-info"
        assert {name.partition("/")[0] for name in names} == {"sidecar", information}
        assert {"sidecar/py.typed", "sidecar/estimators/prior.json"} <= set(names)
        assert f"{information}/licenses/LICENSE" in names
        assert not [name for name in names if "test" in name or "__pycache__" in name]

    def test_says_what_it_is(self, wheel: Path) -> None:
        name = f"capacity_sidecar-{__version__}.dist-info/METADATA"
        metadata = message_from_string(ZipFile(wheel).read(name).decode())

        assert metadata["Name"] == "capacity-sidecar"
        assert metadata["License-Expression"] == "Apache-2.0"
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert {"gcp", "plot"} <= set(metadata.get_all("Provides-Extra", []))


class TestInstalled:
    def test_by_pip_with_the_extra(self, wheel: Path, tmp_path: Path) -> None:
        python = environment(tmp_path / "venv")
        installed(python, f"{wheel}[gcp]")
        command = python.with_name("capacity-sidecar")

        with fast_worker() as worker:
            checked = self.check(command, worker)
            project = {"SIDECAR_CLOUD_MONITORING_PROJECT": "a-project"}
            cloud = run(command, "check", NO_GCE_CHECK="true", HOME="/", **project)

        assert "a vllm worker" in checked.stdout
        assert "FAIL  cloud_monitoring: no credentials" in cloud.stdout

    def test_by_pipx(self, wheel: Path, tmp_path: Path) -> None:
        python = environment(tmp_path / "venv")
        installed(python, PIPX)
        home, commands = tmp_path / "home", tmp_path / "bin"
        where = {"PIPX_HOME": str(home), "PIPX_BIN_DIR": str(commands)}
        done = run(python, "-m", "pipx", "install", wheel, **where)
        assert done.returncode == 0, done.stderr

        with fast_worker() as worker:
            checked = self.check(commands / "capacity-sidecar", worker)

        assert "a vllm worker" in checked.stdout

    def check(self, command: Path, worker: SimulatedWorker) -> Finished:
        version = run(command, "--version")
        assert version.stdout == f"capacity-sidecar {__version__}\n"
        checked = run(command, "check", SIDECAR_TARGETS=worker.url)
        assert (checked.returncode, checked.stderr) == (0, "")
        return checked
