"""Buildah and Podman, with images and containers of their own below `.real`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.debian_tree import CACHE, tree
from tests.process.debian import binary

ROOT = Path(__file__).parents[3]
STORAGE = CACHE.parent / "containers"
BASE = "localhost/debian-python"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP = Path("/etc/pip.conf")

Finished = subprocess.CompletedProcess[str]

_STORES = ("--root", f"{STORAGE}/images", "--runroot", f"{STORAGE}/running")
# Podman's own limits are more than some machines allow, and Debian's crun fails where
# both versions of cgroups are mounted.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
PODMAN = (*_STORES, *(("--runtime", "runc") if shutil.which("runc") else ()))


def needed() -> None:
    """Skip where the machine cannot do it."""
    binary("buildah", "buildah")
    binary("podman", "podman")
    if os.geteuid() != 0:
        pytest.skip("building and running containers here needs root")


def buildah(*arguments: str) -> str:
    """Run a command of Buildah's; what it printed."""
    return _output("buildah", *_STORES, *arguments)


def podman(*arguments: str, within: float = 60.0) -> Finished:
    """Run a command of Podman's to its end, whatever that is."""
    return subprocess.run(
        ["podman", *PODMAN, *arguments],
        capture_output=True,
        text=True,
        timeout=within,
    )


def run_options(environ: Mapping[str, str], beside: str) -> list[str]:
    """The options of `podman run` for these variables.

    Args:
        beside: whose network it gets; empty: one of its own, with loopback only.
    """
    variables = [f"--env={name}={value}" for name, value in environ.items()]
    network = f"container:{beside}" if beside else "none"
    return [*LIMITS, f"--network={network}", *variables]


def image(extra: str) -> str:
    """Build the Dockerfile on a Debian of our own; the image's name."""
    name = f"localhost/capacity-sidecar:{extra}"
    # Layers that did not change come from the last time.
    buildah(
        *("build", "--isolation=chroot", "--format=docker", "--layers"),
        *(f"--build-arg=BASE={_base()}", f"--build-arg=EXTRA={extra}"),
        *("--build-arg=REVISION=a-revision", f"--tag={name}", str(ROOT)),
    )
    return name


def inspect(kind: str, name: str) -> dict[str, Any]:
    """What Podman knows about an image or a container."""
    shown = podman(kind, "inspect", name)
    assert shown.returncode == 0, shown.stderr
    found: list[dict[str, Any]] = json.loads(shown.stdout)
    return found[0]


def _base() -> str:
    """An image of Debian with its Python, and what pip needs on this machine."""
    if buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        return BASE
    container = buildah("from", "scratch").strip()
    buildah("copy", container, str(tree(["python3", "python3-venv"])), "/")
    for file in (AUTHORITIES, PIP):
        if file.exists():
            buildah("copy", container, str(file), str(file))
    buildah("commit", "--rm", container, BASE)
    return BASE


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
