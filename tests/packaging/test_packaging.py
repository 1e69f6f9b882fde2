"""That the files of packaging/ fit the sidecar, the shell, and gcloud's reference."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.environment import load, variables
from sidecar.reading import NAMES
from sidecar.tag import sanitize
from tests.packaging.documents import (
    GCP,
    README,
    ROOT,
    Gcloud,
    files,
    gcloud_commands,
    known_commands,
    pages,
    readmes,
    shell_blocks,
)

SCRIPTS = [path for path in files() if path.suffix == ".sh"]
COMMANDS = [
    pytest.param(command, id=f"{page.parent.name}-{number}")
    for page in readmes()
    for number, command in enumerate(gcloud_commands(page))
]


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def _page(path: Path) -> str:
    return path.parent.name if path != README else "root"


class TestNames:
    @pytest.mark.parametrize("path", files(), ids=_name)
    def test_settings_are_the_sidecars(self, path: Path) -> None:
        """A misspelt variable would keep the sidecar from starting."""
        used = set(re.findall(r"\bSIDECAR_[A-Z][A-Z_]+\b", path.read_text("utf-8")))

        assert used <= {variable.name for variable in variables()}

    @pytest.mark.parametrize("path", files(), ids=_name)
    def test_metrics_are_the_sidecars(self, path: Path) -> None:
        """An autoscaler waits for ever for a metric that nobody publishes."""
        used = set(re.findall(r"\bllm_worker_[a-z]\w*", path.read_text("utf-8")))

        assert used <= set(NAMES)

    def test_the_settings_of_a_machine_are_valid(self) -> None:
        """What the start-up script and per-group.env write into the environment."""
        text = (GCP / "startup.sh").read_text("utf-8")
        script = re.findall(r"^(SIDECAR_\w+)=(\S+)$", text, re.MULTILINE)
        group = (GCP / "per-group.env").read_text("utf-8").split()

        environ = {**dict(script), **dict(line.split("=", 1) for line in group)}
        settings = load(environ).settings

        assert settings.sinks is not None
        assert "cloud_monitoring" in settings.sinks
        assert settings.cloud_monitoring.resource_type == "generic_task"
        assert "demand" in settings.cloud_monitoring.metrics

    def test_the_tag_of_the_page_is_the_tag_of_its_model(self) -> None:
        text = (GCP / "README.md").read_text("utf-8")
        (model,) = re.findall(r"\bMODEL=(\S+)", text)
        (tag,) = re.findall(r"\bTAG=(\S+)", text)

        assert tag == sanitize(model)

    def test_the_script_reads_the_attributes_that_the_page_sets(self) -> None:
        script = (GCP / "startup.sh").read_text("utf-8")
        page = (GCP / "README.md").read_text("utf-8")
        lists = re.findall(r"--metadata(?:-from-file)?=\"?([^\s\"]+)", page)
        told = {pair.split("=")[0] for each in lists for pair in each.split(",")}

        assert told - {"startup-script"} <= set(
            re.findall(r"attribute ([\w-]+)", script)
        )


class TestShell:
    @pytest.mark.parametrize("script", SCRIPTS, ids=_name)
    def test_scripts_are_bash_and_may_be_run(self, script: Path) -> None:
        assert script.stat().st_mode & 0o111
        subprocess.run(["bash", "-n", script], check=True)

    @pytest.mark.parametrize("script", SCRIPTS, ids=_name)
    def test_scripts_please_shellcheck(self, script: Path) -> None:
        if not (shellcheck := shutil.which("shellcheck")):
            pytest.skip("shellcheck is not installed")
        subprocess.run([shellcheck, script], check=True)

    @pytest.mark.parametrize("page", pages(), ids=_page)
    def test_blocks_are_bash(self, page: Path) -> None:
        assert shell_blocks(page)
        for block in shell_blocks(page):
            subprocess.run(["bash", "-n"], input=block, text=True, check=True)

    @pytest.mark.parametrize("page", pages(), ids=_page)
    def test_blocks_name_files_that_are_there(self, page: Path) -> None:
        """From the root of a checkout, or from a folder beside packaging/."""
        for block in shell_blocks(page):
            for path in re.findall(r"(?<![\w/])(?:\.\./)?(packaging/[\w./-]*)", block):
                assert (ROOT / path).exists(), path

    @pytest.mark.parametrize("page", [*readmes(), README], ids=_page)
    def test_every_block_ends_with_what_to_look_at(self, page: Path) -> None:
        """Somebody pastes this at 3 am."""
        text = page.read_text("utf-8")
        if page == README:
            _, _, after_the_first_screen = text.partition("## In a container")
            text, _, _ = after_the_first_screen.partition("## On Google Cloud")
        after = re.split(r"^```sh\n.*?^```$", text, flags=re.MULTILINE | re.DOTALL)

        assert all(text.strip().startswith("Look at: ") for text in after[1:])


class TestGcloud:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_commands_and_flags_are_looked_up(self, command: Gcloud) -> None:
        """New ones go into gcloud.json, once found in the reference named there."""
        assert command.name, f"not in gcloud.json: gcloud {command.text}"
        assert set(command.flags) <= command.allowed

    def test_the_list_has_no_more_than_is_used(self) -> None:
        used: dict[str, set[str]] = {}
        for page in readmes():
            for command in gcloud_commands(page):
                used.setdefault(command.name, set()).update(command.flags)

        for name, known in known_commands().items():
            assert known["source"].endswith("/" + name.replace(" ", "/"))
            assert set(known["flags"]) <= used.get(name, set()), name
        assert set(known_commands()) == set(used)
