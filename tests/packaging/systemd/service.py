"""The service as systemctl and the journal show it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.machine import Machine
from tests.process.waiting import until
from tests.process.web import Sample, samples

UNIT = "capacity-sidecar.service"
SETTINGS = "/etc/default/capacity-sidecar"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/test.conf"

FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"


@dataclass(frozen=True)
class Service:
    """The sidecar's unit on a machine."""

    machine: Machine

    def restart(self, *, unit: str = "", **settings: str) -> None:
        """Start it anew, with only these settings; ``unit`` adds to its unit file."""
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        self.machine.write(SETTINGS, "".join(lines))
        self.machine.write(DROP_IN, f"[Service]\n{unit}\n")
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "stop", UNIT)
        self.machine.run("systemctl", "reset-failed", UNIT, check=False)
        self.machine.run("journalctl", "--rotate", "--vacuum-time=1s")
        # A wrong setting makes this fail; the tests look at what is left.
        self.machine.run("systemctl", "start", UNIT, check=False)

    def stop(self) -> None:
        self.machine.run("systemctl", "stop", UNIT)

    def shown(self, name: str) -> str:
        """One property of the unit."""
        return self.machine.run(
            "systemctl", "show", "--value", f"--property={name}", UNIT
        ).strip()

    @property
    def status(self) -> str:
        """What an operator sees first."""
        return self.machine.run(
            "systemctl", "status", "--full", "--no-pager", UNIT, check=False
        )

    @property
    def journal(self) -> list[str]:
        """The unit's lines since its last ``restart``, its own and systemd's."""
        command = ("journalctl", "--no-pager", "--output=cat", f"--unit={UNIT}")
        return self.machine.run(*command).splitlines()

    def page(self, path: str, port: int = 9846) -> str:
        """A page on the machine's loopback."""
        url = f"http://127.0.0.1:{port}{path}"
        return self.machine.run("python3", "-c", FETCH, url)

    def metric(self, name: str) -> list[Sample]:
        """A metric's samples on the service's own page."""
        return [each for each in samples(self.page("/metrics")) if each.name == name]

    def groups(self, port: int) -> list[dict[str, str]]:
        """The groups of a Pushgateway there."""
        found = json.loads(self.page("/api/v1/metrics", port))["data"]
        return [group["labels"] for group in found]

    def wait_for_status(self, text: str, within: float = 30.0) -> str:
        """Wait until the status line has the text in it."""
        return until(
            lambda: line if text in (line := self.shown("StatusText")) else "",
            f"{text!r} in the status line",
            within,
        )


def start_beside(machine: Machine, unit: str, command: str, user: str = "root") -> None:
    """Something else on the machine as a service of its own."""
    text = f"[Service]\nUser={user}\nExecStart={command}\n"
    machine.write(
        f"/etc/systemd/system/{unit}.service",
        f"{text}[Install]\nWantedBy=multi-user.target\n",
    )
    machine.run("systemctl", "enable", "--now", "--quiet", unit)


def copied(machine: Machine, program: str) -> str:
    """A program of this machine's, which needs nothing beside it, put on that one."""
    there = f"/usr/local/bin/{Path(program).name}"
    target = machine.root / there.removeprefix("/")
    target.write_bytes(Path(program).read_bytes())
    target.chmod(0o755)
    return there
