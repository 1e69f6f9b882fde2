"""The package in a Debian: installed, upgraded, removed, purged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.simulator import SimulatedWorker
from tests.packaging.deb.built import release
from tests.packaging.deb.machine import Machine
from tests.process.workers import SIGNAL

pytestmark = pytest.mark.packaging

SETTINGS = "/etc/default/capacity-sidecar"
SECRET = "/etc/capacity-sidecar/SIDECAR_BEARER_TOKEN"
LINK = "/var/lib/capacity-sidecar"
STATE = "/var/lib/private/capacity-sidecar"
PLUGINS = "/usr/local/lib/capacity-sidecar"
CHOICE = 'SIDECAR_LABELS="cluster=eu1"\n'


def write(machine: Machine, path: str, text: str) -> None:
    machine.file(path).parent.mkdir(parents=True, exist_ok=True)
    machine.file(path).write_text(text, "utf-8")


def edit_the_settings(machine: Machine) -> str:
    edited = machine.file(SETTINGS).read_text("utf-8") + CHOICE
    machine.file(SETTINGS).write_text(edited, "utf-8")
    return edited


def leave_traces(machine: Machine) -> None:
    """What an operator and a running service leave, as DynamicUser keeps it."""
    write(machine, SECRET, "a secret")
    write(machine, f"{STATE}/state.json", "{}")
    machine.file(LINK).symlink_to("private/capacity-sidecar")
    assert __version__ in machine.does("capacity-sidecar", "--version")


class TestInstalled:
    def test_it_runs_with_debian_s_own_python_and_nothing_else(
        self, machine: Machine, package: Path, worker: SimulatedWorker
    ) -> None:
        machine.install(package)
        checked = machine.does(
            "capacity-sidecar", "check", environ={"SIDECAR_TARGETS": worker.url}
        )

        assert machine.does("dpkg", "--audit") == ""
        assert SIGNAL in checked

    def test_nothing_of_the_environment_or_the_system_gets_in(
        self, machine: Machine, package: Path, worker: SimulatedWorker
    ) -> None:
        machine.install(package)
        broken = "raise SystemExit('not ours')\n"
        write(machine, "/usr/lib/python3/dist-packages/pydantic.py", broken)
        write(machine, "/usr/lib/python3/dist-packages/sitecustomize.py", broken)
        write(machine, "/root/mine/structlog.py", broken)
        write(machine, f"{PLUGINS}/requests.py", broken)

        environ = {"PYTHONPATH": "/root/mine", "SIDECAR_TARGETS": worker.url}
        checked = machine.does("capacity-sidecar", "check", environ=environ)

        assert SIGNAL in checked

    def test_an_operator_s_package_brings_an_estimator(
        self, machine: Machine, package: Path, worker: SimulatedWorker
    ) -> None:
        machine.install(package)
        about = f"{PLUGINS}/mine-1.dist-info"
        write(machine, f"{about}/METADATA", "Metadata-Version: 2.1\nName: mine\n")
        points = "[sidecar.estimators]\nmine = mine:build\n"
        write(machine, f"{about}/entry_points.txt", points)
        write(machine, f"{PLUGINS}/mine.py", "from sidecar.estimators.rate import *\n")

        environ = {"SIDECAR_ESTIMATOR": "mine", "SIDECAR_TARGETS": worker.url}
        checked = machine.does("capacity-sidecar", "check", environ=environ)

        assert SIGNAL in checked

    def test_the_service_is_enabled(self, machine: Machine, package: Path) -> None:
        machine.install(package)

        wanted = "/etc/systemd/system/multi-user.target.wants"
        assert machine.file(f"{wanted}/capacity-sidecar.service").is_symlink()


class TestUpgraded:
    def test_edited_settings_stay_and_nobody_is_asked(
        self, machine: Machine, package: Path, tmp_path: Path
    ) -> None:
        machine.install(package)
        edited = edit_the_settings(machine)
        leave_traces(machine)

        machine.install(release(package, "99.0", tmp_path))

        assert machine.file(SETTINGS).read_text("utf-8") == edited
        assert machine.file(SECRET).read_text("utf-8") == "a secret"
        assert machine.file(f"{LINK}/state.json").is_file()
        assert "99.0" in machine.does("dpkg-query", "--show", "capacity-sidecar")

    def test_settings_that_both_changed_are_dpkg_s_usual_question(
        self, machine: Machine, package: Path, tmp_path: Path
    ) -> None:
        """Its usual option answers it, and the release's file lies beside."""
        machine.install(package)
        edited = edit_the_settings(machine)

        new = release(package, "99.0", tmp_path, "# SIDECAR_NEW=\n")
        machine.install(new, "--force-confold")

        assert machine.file(SETTINGS).read_text("utf-8") == edited
        beside = machine.file(f"{SETTINGS}.dpkg-dist").read_text("utf-8")
        assert beside.endswith("# SIDECAR_NEW=\n")

    def test_settings_that_nobody_edited_are_the_release_s(
        self, machine: Machine, package: Path, tmp_path: Path
    ) -> None:
        machine.install(package)

        machine.install(release(package, "99.0", tmp_path, "# SIDECAR_NEW=\n"))

        assert "# SIDECAR_NEW=" in machine.file(SETTINGS).read_text("utf-8")


class TestRemoved:
    def test_a_removal_keeps_what_is_the_operator_s(
        self, machine: Machine, package: Path
    ) -> None:
        machine.install(package)
        edited = edit_the_settings(machine)
        leave_traces(machine)

        machine.does("dpkg", "--remove", "capacity-sidecar")

        assert machine.file(SETTINGS).read_text("utf-8") == edited
        assert machine.file(SECRET).is_file()
        assert machine.file(f"{STATE}/state.json").is_file()
        assert not machine.file("/usr/lib/capacity-sidecar").exists()

        machine.install(package)
        assert machine.file(SETTINGS).read_text("utf-8") == edited

    def test_a_purge_leaves_nothing(self, machine: Machine, package: Path) -> None:
        before = machine.files()
        machine.install(package)
        edit_the_settings(machine)
        leave_traces(machine)

        said = machine.does("dpkg", "--purge", "capacity-sidecar")

        # systemd's own folder, which DynamicUser shares with other services.
        assert machine.files() - before == {"/var/lib/private"}
        assert before <= machine.files()
        assert "not empty" not in said

        machine.install(package)
        assert __version__ in machine.does("capacity-sidecar", "--version")
