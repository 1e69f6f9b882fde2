"""The package in a Debian: installed, upgraded, removed, purged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.simulator import SimulatedWorker
from tests.packaging.deb.built import release
from tests.packaging.deb.chroot import Chroot
from tests.process.workers import SIGNAL

pytestmark = pytest.mark.packaging

SETTINGS = "/etc/default/capacity-sidecar"
SECRET = "/etc/capacity-sidecar/SIDECAR_BEARER_TOKEN"
LINK = "/var/lib/capacity-sidecar"
STATE = "/var/lib/private/capacity-sidecar"
PLUGINS = "/usr/local/lib/capacity-sidecar"
CHOICE = 'SIDECAR_LABELS="cluster=eu1"\n'


def write(debian: Chroot, path: str, text: str) -> None:
    debian.file(path).parent.mkdir(parents=True, exist_ok=True)
    debian.file(path).write_text(text, "utf-8")


def edit_the_settings(debian: Chroot) -> str:
    edited = debian.file(SETTINGS).read_text("utf-8") + CHOICE
    debian.file(SETTINGS).write_text(edited, "utf-8")
    return edited


def leave_traces(debian: Chroot) -> None:
    """What an operator and a running service leave, as DynamicUser keeps it."""
    write(debian, SECRET, "a secret")
    write(debian, f"{STATE}/state.json", "{}")
    debian.file(LINK).symlink_to("private/capacity-sidecar")
    assert __version__ in debian.does("capacity-sidecar", "--version")


class TestInstalled:
    def test_it_runs_with_debian_s_own_python_and_nothing_else(
        self, debian: Chroot, package: Path, worker: SimulatedWorker
    ) -> None:
        debian.install(package)
        checked = debian.does(
            "capacity-sidecar", "check", environ={"SIDECAR_TARGETS": worker.url}
        )

        assert debian.does("dpkg", "--audit") == ""
        assert SIGNAL in checked

    def test_nothing_of_the_environment_or_the_system_gets_in(
        self, debian: Chroot, package: Path, worker: SimulatedWorker
    ) -> None:
        debian.install(package)
        broken = "raise SystemExit('not ours')\n"
        write(debian, "/usr/lib/python3/dist-packages/pydantic.py", broken)
        write(debian, "/usr/lib/python3/dist-packages/sitecustomize.py", broken)
        write(debian, "/root/mine/structlog.py", broken)
        write(debian, f"{PLUGINS}/requests.py", broken)

        environ = {"PYTHONPATH": "/root/mine", "SIDECAR_TARGETS": worker.url}
        checked = debian.does("capacity-sidecar", "check", environ=environ)

        assert SIGNAL in checked

    def test_an_operator_s_package_brings_an_estimator(
        self, debian: Chroot, package: Path, worker: SimulatedWorker
    ) -> None:
        debian.install(package)
        about = f"{PLUGINS}/mine-1.dist-info"
        write(debian, f"{about}/METADATA", "Metadata-Version: 2.1\nName: mine\n")
        points = "[sidecar.estimators]\nmine = mine:build\n"
        write(debian, f"{about}/entry_points.txt", points)
        write(debian, f"{PLUGINS}/mine.py", "from sidecar.estimators.rate import *\n")

        environ = {"SIDECAR_ESTIMATOR": "mine", "SIDECAR_TARGETS": worker.url}
        checked = debian.does("capacity-sidecar", "check", environ=environ)

        assert SIGNAL in checked

    def test_the_service_is_enabled(self, debian: Chroot, package: Path) -> None:
        debian.install(package)

        wanted = "/etc/systemd/system/multi-user.target.wants"
        assert debian.file(f"{wanted}/capacity-sidecar.service").is_symlink()


class TestUpgraded:
    def test_edited_settings_stay_and_nobody_is_asked(
        self, debian: Chroot, package: Path, tmp_path: Path
    ) -> None:
        debian.install(package)
        edited = edit_the_settings(debian)
        leave_traces(debian)

        debian.install(release(package, "99.0", tmp_path))

        assert debian.file(SETTINGS).read_text("utf-8") == edited
        assert debian.file(SECRET).read_text("utf-8") == "a secret"
        assert debian.file(f"{LINK}/state.json").is_file()
        assert "99.0" in debian.does("dpkg-query", "--show", "capacity-sidecar")

    def test_settings_that_both_changed_are_dpkg_s_usual_question(
        self, debian: Chroot, package: Path, tmp_path: Path
    ) -> None:
        """Its usual option answers it, and the release's file lies beside."""
        debian.install(package)
        edited = edit_the_settings(debian)

        new = release(package, "99.0", tmp_path, "# SIDECAR_NEW=\n")
        debian.install(new, "--force-confold")

        assert debian.file(SETTINGS).read_text("utf-8") == edited
        beside = debian.file(f"{SETTINGS}.dpkg-dist").read_text("utf-8")
        assert beside.endswith("# SIDECAR_NEW=\n")

    def test_settings_that_nobody_edited_are_the_release_s(
        self, debian: Chroot, package: Path, tmp_path: Path
    ) -> None:
        debian.install(package)

        debian.install(release(package, "99.0", tmp_path, "# SIDECAR_NEW=\n"))

        assert "# SIDECAR_NEW=" in debian.file(SETTINGS).read_text("utf-8")


class TestRemoved:
    def test_a_removal_keeps_what_is_the_operator_s(
        self, debian: Chroot, package: Path
    ) -> None:
        debian.install(package)
        edited = edit_the_settings(debian)
        leave_traces(debian)

        debian.does("dpkg", "--remove", "capacity-sidecar")

        assert debian.file(SETTINGS).read_text("utf-8") == edited
        assert debian.file(SECRET).is_file()
        assert debian.file(f"{STATE}/state.json").is_file()
        assert not debian.file("/usr/lib/capacity-sidecar").exists()

        debian.install(package)
        assert debian.file(SETTINGS).read_text("utf-8") == edited

    def test_a_purge_leaves_nothing(self, debian: Chroot, package: Path) -> None:
        before = debian.files()
        debian.install(package)
        edit_the_settings(debian)
        leave_traces(debian)

        said = debian.does("dpkg", "--purge", "capacity-sidecar")

        # systemd's own folder, which DynamicUser shares with other services.
        assert debian.files() - before == {"/var/lib/private"}
        assert before <= debian.files()
        assert "not empty" not in said

        debian.install(package)
        assert __version__ in debian.does("capacity-sidecar", "--version")
