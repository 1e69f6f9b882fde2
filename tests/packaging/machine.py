"""A machine of our own: Debian, booted by systemd-nspawn, its network apart."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.debian_tree import copy
from tests.process.debian import binary
from tests.process.waiting import until

BOOTS_WITHIN = 60.0
ENDS_WITHIN = 30.0


class Machine:
    """One machine; what it writes is gone with its folder.

    Attributes:
        root: its file system, as this machine sees it.
    """

    def __init__(self, folder: Path, packages: Sequence[str]) -> None:
        """Prepare a copy of Debian with these packages; ``boot`` starts it."""
        self._nspawn = binary("systemd-nspawn", "systemd-container")
        if os.geteuid() != 0:
            pytest.skip("systemd-nspawn needs root")
        self.root = folder / "root"
        self._console = folder / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        copy(packages, self.root)

    def boot(self) -> None:
        """Start it and wait until every service has been started."""
        options = ["--quiet", "--boot", "--private-network", "--console=pipe"]
        # No service manager of this machine need know of it.
        options += ["--register=no", "--keep-unit", f"--directory={self.root}"]
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                # It goes down with the tests, however these end.
                ["setpriv", "--pdeathsig=TERM", self._nspawn, *options],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        until(self._is_up, f"the machine is up, see {self._console}", BOOTS_WITHIN)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command in there as root; what it printed, on both outputs."""
        ended = subprocess.run(
            ["nsenter", f"--target={self._first()}", "--all", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        )
        assert not check or ended.returncode == 0, f"{command}:\n{ended.stdout}"
        return ended.stdout

    def install(self, package: Path) -> str:
        """Install a .deb with dpkg alone, as from a download."""
        shutil.copy(package, self.root / "root")
        return self.run("dpkg", "--install", f"/root/{package.name}")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file in there."""
        file = self.root / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(mode)

    def off(self) -> None:
        """Shut it down in order; at once if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._console.read_text()
        if self._first() is None:
            return False
        state = self.run("systemctl", "is-system-running", check=False).strip()
        return state in {"running", "degraded"}

    def _first(self) -> int | None:
        """Our number of its process 1."""
        assert self._process is not None
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                (line,) = (x for x in status.splitlines() if x.startswith("NSpid:"))
                if line.split()[-1] == "1":
                    return int(child)
        return None
