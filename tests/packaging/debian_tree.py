"""Debian as a folder: made once for a set of packages, kept until `make clean`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.process.debian import binary

RELEASE = "bookworm"
CACHE = Path(__file__).parents[2] / ".real" / "debian"


def tree(packages: Sequence[str]) -> Path:
    """Return the root of a minimal Debian with these packages. Not to be written to.

    A test that changes files makes a ``copy``.
    """
    debootstrap = binary("debootstrap", "debootstrap")
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root")
    root = CACHE / "+".join([RELEASE, *sorted(packages)])
    if root.is_dir():
        return root
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE, prefix=".unfinished-") as folder:
        unfinished = Path(folder) / "root"
        # In a mount namespace, so that no end of it leaves /proc mounted in there.
        command = ["unshare", "--mount", debootstrap, "--variant=minbase"]
        if packages:
            command.append(f"--include={','.join(packages)}")
        made = subprocess.run(
            [*command, RELEASE, str(unfinished), *_mirror()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert made.returncode == 0, made.stdout[-4000:]
        for package in (unfinished / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        try:
            unfinished.rename(root)
        except OSError:
            # Another session was faster; anything else is an error.
            assert root.is_dir()
    return root


def copy(packages: Sequence[str], root: Path) -> None:
    """Make such a Debian at ``root``, to be written to."""
    made = tree(packages)
    subprocess.run(["cp", "-a", "--reflink=auto", made, root], check=True)


def _mirror() -> list[str]:
    """Where this machine's apt gets the release from, however its sources say it.

    Empty where it has none: debootstrap knows the usual one.
    """
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format=$(CODENAME) $(COMPONENT) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        codename, component, uri = line.split(maxsplit=2)
        if (codename, component) == (RELEASE, "main"):
            return [uri]
    return []
