"""A Debian that packages can be installed into: a folder, entered with chroot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.packaging.debian_tree import copy
from tests.process.debian import binary

NOTHING: Mapping[str, str] = MappingProxyType({})
OF_DPKG_ITSELF = ("/var/lib/dpkg", "/var/log", "/var/cache")

Finished = subprocess.CompletedProcess[str]


def unpacked(package: Path, folder: Path) -> Path:
    """Unpack what a package installs."""
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


@dataclass(frozen=True)
class Chroot:
    """The root folder of a Debian that does not run: no systemd, no /proc."""

    root: Path

    @classmethod
    def copied(cls, root: Path) -> Chroot:
        """Copy the one that has Python and nothing else to speak of."""
        copy(["python3"], root)
        return cls(root)

    def run(self, *command: str, environ: Mapping[str, str] = NOTHING) -> Finished:
        """Run a command as root; what asks a question gets no answer, and fails."""
        return subprocess.run(
            [binary("chroot", "coreutils"), str(self.root), *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def does(self, *command: str, environ: Mapping[str, str] = NOTHING) -> str:
        """Run a command that must succeed; its output."""
        done = self.run(*command, environ=environ)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def install(self, package: Path, *options: str) -> str:
        """Install a package from outside; what dpkg says."""
        inside = self.root / "tmp" / package.name
        inside.write_bytes(package.read_bytes())
        try:
            return self.does("dpkg", *options, "--install", f"/tmp/{package.name}")
        finally:
            inside.unlink()

    def file(self, path: str) -> Path:
        """Return the place of a file of the machine."""
        return self.root / path.removeprefix("/")

    def files(self) -> set[str]:
        """Every path of the machine but what dpkg notes for itself."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            inside = folder.removeprefix(str(self.root))
            if inside.startswith(OF_DPKG_ITSELF):
                folders.clear()
                continue
            found |= {f"{inside}/{name}" for name in (*folders, *files)}
        return found
