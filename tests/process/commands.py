"""The command as a process, in an environment that holds only what a test says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "sidecar")
SLOWEST = 30.0

_NOT_OURS = ("SIDECAR_", "DYN_", "PYTHON")

Finished = subprocess.CompletedProcess[str]


def environ(settings: Mapping[str, str]) -> dict[str, str]:
    """The machine's environment without what changes the sidecar, and the settings.

    PYTHONUNBUFFERED is among it: it would hide what happens to buffered output.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_NOT_OURS) and not name.lower().endswith("_proxy")
    }
    return {**kept, **settings}


def start(
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    prefix: Sequence[str] = (),
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start one command."""
    return subprocess.Popen(
        [*prefix, *COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        cwd=ROOT,
        env=environ(settings),
    )


def finish(process: subprocess.Popen[str]) -> Finished:
    """Wait for the end of a command and take its output."""
    with process:
        try:
            out, err = process.communicate(timeout=SLOWEST)
        finally:
            process.kill()
    return Finished(process.args, process.returncode, out or "", err or "")


def run(*arguments: str, **settings: str) -> Finished:
    """Run one command to its end; settings by their full names."""
    return finish(start(arguments, settings))


def run_all(*commands: Sequence[str], **settings: str) -> list[Finished]:
    """Run several commands at once, which takes less time; results in their order."""
    return [finish(process) for process in [start(c, settings) for c in commands]]


def sentences(text: str) -> list[str]:
    """The lines of an error output; none may be part of a traceback."""
    assert "Traceback" not in text, text
    assert "Exception ignored" not in text, text
    return text.splitlines()
