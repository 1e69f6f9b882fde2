"""The systemd unit without systemd running; tests/packaging/systemd runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.cli import COMMANDS, MISCONFIGURED
from sidecar.environment import load, variables
from sidecar.service import STOP_WITHIN
from sidecar.settings import LONGEST_SCRAPE
from tests.packaging.documents import PACKAGING

UNIT = PACKAGING / "systemd" / "capacity-sidecar.service"
LEAST_EXPOSED = 1.5


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    """The settings of [Service], each with its values in order."""
    found: dict[str, list[str]] = {}
    _, _, section = UNIT.read_text("utf-8").partition("[Service]\n")
    for line in section.partition("\n[")[0].splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


class TestUnit:
    def test_a_secret_each_is_a_credential(self, service: dict[str, list[str]]) -> None:
        """Named like its variable, from a file of that name, and never needed."""
        secrets = [each.name for each in variables() if each.is_secret]
        folder = "/etc/capacity-sidecar"

        assert service["LoadCredential"] == [f"{s}:{folder}/{s}" for s in secrets]
        assert service["SetCredential"] == [f"{s}:\\n" for s in secrets]

    def test_what_it_falls_back_to_is_no_secret(
        self, service: dict[str, list[str]], tmp_path: Path
    ) -> None:
        for each in service["SetCredential"]:
            name, _, text = each.partition(":")
            (tmp_path / name).write_text(text.encode().decode("unicode_escape"))

        loaded = load({"CREDENTIALS_DIRECTORY": str(tmp_path)})

        assert loaded.origins == {}

    def test_its_environment_is_settings(
        self, service: dict[str, list[str]], tmp_path: Path
    ) -> None:
        pairs = " ".join(service["Environment"]).split()
        environ = dict(pair.split("=", 1) for pair in pairs)
        folder, _, _ = environ["SIDECAR_STATE_FILE"].rpartition("/")

        assert folder == f"/var/lib/{service['StateDirectory'][0]}"
        assert load({**environ, "SIDECAR_STATE_FILE": str(tmp_path / "state.json")})

    def test_a_wrong_setting_is_not_tried_again(
        self, service: dict[str, list[str]]
    ) -> None:
        assert service["Restart"] == ["on-failure"]
        assert service["RestartPreventExitStatus"] == [str(MISCONFIGURED)]

    def test_it_may_end_in_its_own_time(self, service: dict[str, list[str]]) -> None:
        assert int(service["TimeoutStopSec"][0]) > STOP_WITHIN + 1

    def test_it_says_itself_that_it_is_up_and_that_its_loop_turns(
        self, service: dict[str, list[str]]
    ) -> None:
        longest_turn = 4 * LONGEST_SCRAPE

        assert service["Type"] == ["notify"]
        assert int(service["WatchdogSec"][0]) > longest_turn

    def test_its_commands_are_there(self, service: dict[str, list[str]]) -> None:
        (before,), (command,) = service["ExecStartPre"], service["ExecStart"]
        # What check finds is for reading: neither its status nor its time decides.
        limit = int(service["TimeoutStartSec"][0])
        found = re.fullmatch(r"-/usr/bin/timeout (\d+) (\S+) (\w+)", before)

        assert found
        assert int(found[1]) <= limit / 2
        assert f"{found[2]} run" == command == "/usr/bin/capacity-sidecar run"
        assert found[3] in COMMANDS

    def test_its_settings_need_not_be_there(
        self, service: dict[str, list[str]]
    ) -> None:
        assert service["EnvironmentFile"] == ["-/etc/default/capacity-sidecar"]

    def test_it_has_the_memory_that_it_needs(
        self, service: dict[str, list[str]]
    ) -> None:
        """The README tells of 80 MB with Google's client."""
        assert int(service["MemoryMax"][0].removesuffix("M")) >= 2 * 80

    def test_the_process_table_stays_readable(
        self, service: dict[str, list[str]]
    ) -> None:
        assert service["ProtectProc"] == ["default"]
        assert service["ProcSubset"] == ["all"]

    def test_systemd_finds_it_hardened(self) -> None:
        if not (analyze := shutil.which("systemd-analyze")):
            pytest.skip("systemd-analyze is not installed")
        found = subprocess.run(
            [analyze, "security", "--offline=true", UNIT],
            capture_output=True,
            text=True,
        )
        if "unrecognized option" in found.stderr:
            pytest.skip("this systemd-analyze is too old for --offline")

        exposure = re.search(r"Overall exposure level .*: (\d+\.\d)", found.stdout)
        assert exposure
        assert float(exposure[1]) <= LEAST_EXPOSED
        assert found.stderr == ""
