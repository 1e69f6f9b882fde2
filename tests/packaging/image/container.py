"""The image as a container, with nothing allowed that it does not need."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.packaging.image.engine import Finished, inspect, podman, run_options

HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)


NOTHING: Mapping[str, str] = MappingProxyType({})


def run(
    image: str,
    *command: str,
    options: tuple[str, ...] = (),
    environ: Mapping[str, str] = NOTHING,
    beside: str = "",
) -> Finished:
    """Run a command of the image to its end."""
    given = (*HARDENED, "--no-healthcheck", *run_options(environ, beside), *options)
    return podman("run", "--rm", *given, image, *command)


class Container:
    """A container that runs.

    Attributes:
        pid: its first process, as this machine numbers it.
    """

    def __init__(
        self,
        image: str,
        *command: str,
        options: tuple[str, ...] = (),
        environ: Mapping[str, str] = NOTHING,
        beside: str = "",
    ) -> None:
        given = (*HARDENED, *run_options(environ, beside), *options)
        started = podman("run", "--detach", *given, image, *command)
        assert started.returncode == 0, started.stderr
        self.name = started.stdout.strip()
        self.pid: int = inspect("container", self.name)["State"]["Pid"]

    @property
    def log(self) -> str:
        """What it wrote so far."""
        logs = podman("logs", self.name)
        return logs.stdout + logs.stderr

    def execute(self, *command: str) -> Finished:
        """Run a command in it."""
        return podman("exec", self.name, *command)

    def copy(self, place: str, to: Path) -> int:
        """Copy a file out of it; the exit status."""
        return podman("cp", f"{self.name}:{place}", str(to)).returncode

    def is_healthy(self) -> bool:
        """What the image's own HEALTHCHECK finds."""
        return podman("healthcheck", "run", self.name).returncode == 0

    def signal(self, name: str) -> None:
        """Send a signal to its first process."""
        sent = podman("kill", f"--signal={name}", self.name)
        assert sent.returncode == 0, sent.stderr

    def end(self) -> tuple[int, float]:
        """Ask it to end: the exit status, and the seconds until it came."""
        began = time.monotonic()
        self.signal("TERM")
        ended = podman("wait", "--interval=50ms", self.name)
        return int(ended.stdout), time.monotonic() - began

    def remove(self) -> None:
        """Kill it if need be, and show what it said in case the test failed."""
        print(self.log[-4000:])
        removed = podman("rm", "--force", "--time=0", "--volumes", self.name)
        assert removed.returncode == 0, removed.stderr
