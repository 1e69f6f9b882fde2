"""The service on a Debian of its own, from its installation to its end."""

from __future__ import annotations

import re
import time

import pytest

from tests.packaging.documents import ROOT, shell_blocks
from tests.packaging.machine import Machine
from tests.packaging.systemd.conftest import GATEWAY_PORT
from tests.packaging.systemd.service import UNIT, Service, start_beside
from tests.process.waiting import until

pytestmark = pytest.mark.packaging

POLL = {"SIDECAR_POLL_INTERVAL": "500ms"}
GATEWAY = {
    "SIDECAR_PUSHGATEWAY_URL": f"http://127.0.0.1:{GATEWAY_PORT}",
    "SIDECAR_PUSHGATEWAY_INTERVAL": "500ms",
}
WATCHED = 3
"""Seconds of the watchdog: the loop turns twice in each of them."""


class TestAtWork:
    def test_installed_it_runs_and_finds_the_worker(self, service: Service) -> None:
        """With nothing configured; the process table shows another user's process."""
        service.restart()

        line = service.wait_for_status("capacity")

        assert re.search(r"^localhost:8000 is \w+, capacity \S+/s, utilization", line)
        assert line in service.status
        assert service.shown("ActiveState") == "active"
        assert service.shown("UnitFileState") == "enabled"
        (limit,) = service.metric("llm_worker_concurrency_limit")
        assert limit.value == 32

    def test_what_check_found_is_in_the_journal(self, service: Service) -> None:
        service.restart()

        found = "\n".join(service.journal)

        assert "taken  process table: http://localhost:8000 (vllm serve" in found
        assert "would publish" in found

    def test_stopped_it_takes_its_series_away(self, service: Service) -> None:
        service.restart(**POLL, **GATEWAY)
        until(
            lambda: service.groups(GATEWAY_PORT), "the gateway has the worker's group"
        )

        service.stop()

        assert service.groups(GATEWAY_PORT) == []
        assert service.shown("Result") == "success"
        assert service.shown("ExecMainStatus") == "0"
        assert "Deactivated successfully" in "\n".join(service.journal)

    def test_what_it_learned_is_kept(self, service: Service) -> None:
        service.restart(**POLL)
        service.wait_for_status("capacity")
        service.stop()

        (state,) = service.machine.root.glob("var/lib/private/capacity-sidecar/*")

        assert state.name == "state.json"
        assert state.stat().st_mode & 0o777 == 0o600

    def test_killed_it_comes_back(self, service: Service) -> None:
        service.restart(unit="RestartSec=100ms", **POLL)
        before = service.shown("MainPID")

        kill = ("systemctl", "kill", "--signal=KILL", "--kill-whom=main")
        service.machine.run(*kill, "capacity-sidecar")

        until(lambda: service.shown("NRestarts") == "1", "it was restarted")
        service.wait_for_status("capacity")
        assert service.shown("MainPID") != before

    def test_it_comes_back_with_the_machine(
        self, service: Service, machine: Machine
    ) -> None:
        service.restart()

        machine.off()
        machine.boot()

        assert service.shown("ActiveState") == "active"
        service.wait_for_status("capacity")


class TestNameServers:
    SILENT = """\
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("127.0.0.1", 53))
while True:
    listener.recv(512)
"""

    def test_that_never_answer_keep_nothing_else_from_work(
        self, service: Service
    ) -> None:
        machine = service.machine
        machine.write("/usr/local/lib/silent.py", self.SILENT)
        start_beside(machine, "silent", "/usr/bin/python3 /usr/local/lib/silent.py")
        machine.write("/etc/resolv.conf", "nameserver 127.0.0.1\nsearch a b\n")

        service.restart(**POLL, SIDECAR_TARGETS="worker.prod:8000,127.0.0.1:8000")

        line = service.wait_for_status("capacity")
        assert "127.0.0.1:8000 is s" in line
        assert "worker.prod:8000 is unreachable: no name server answers" in line
        machine.run("systemctl", "disable", "--now", "--quiet", "silent")
        machine.run("rm", "/etc/resolv.conf")


class TestPage:
    """The README's block for what is not everybody's."""

    def test_its_block_does_what_it_says(self, service: Service) -> None:
        service.restart(SIDECAR_TAG="told_by_the_file")
        service.machine.write("/etc/capacity-sidecar/google.json", "{}", 0o600)
        (block,) = (
            block
            for block in shell_blocks(ROOT / "README.md")
            if "LoadCredential=google" in block
        )

        said = service.machine.run("bash", "-euc", f'sudo() {{ "$@"; }}\n{block}')

        assert "num_loaded_models_told_by_the_file" in said
        service.wait_for_status("capacity")
        pid = service.shown("MainPID")
        variables = service.machine.run("cat", f"/proc/{pid}/environ").split("\0")
        name = "GOOGLE_APPLICATION_CREDENTIALS"
        (path,) = (each for each in variables if each.startswith(f"{name}="))
        file = path.removeprefix(f"{name}=")
        assert service.machine.run("cat", f"/proc/{pid}/root{file}") == "{}"
        service.machine.run("rm", f"/etc/systemd/system/{UNIT}.d/google.conf")


class TestWatchdog:
    UNIT = f"WatchdogSec={WATCHED}\nRestartSec=100ms"

    def test_a_loop_that_hangs_is_killed_and_says_where(self, service: Service) -> None:
        service.restart(unit=self.UNIT, SIDECAR_ESTIMATOR="hanging", **POLL)
        service.wait_for_status("capacity")

        service.machine.run("touch", "/run/hang")
        until(lambda: service.shown("NRestarts") != "0", "the watchdog bites", 30)
        service.machine.run("rm", "/run/hang")

        service.wait_for_status("capacity", 60)
        told = "\n".join(service.journal)
        assert f"Watchdog timeout (limit {WATCHED}s)!" in told
        assert "hanging.py" in told
        assert service.shown("ActiveState") == "active"

    @pytest.mark.parametrize(
        "settings",
        [{"SIDECAR_POLL_INTERVAL": "1h"}, {"SIDECAR_ENABLED": "false"}],
        ids=["polls once an hour", "disabled"],
    )
    def test_a_loop_that_has_nothing_to_do_is_not(
        self, service: Service, settings: dict[str, str]
    ) -> None:
        service.restart(unit=self.UNIT, **settings)
        pid = service.shown("MainPID")
        # A machine has its host's clock.
        two_watches = time.monotonic() + 2 * WATCHED + 1

        until(lambda: time.monotonic() > two_watches, "two watches are over")
        assert service.shown("NRestarts") == "0"
        assert service.shown("MainPID") == pid


class TestAWrongSetting:
    WRONG = "SIDECAR_POLL_INTERVAL='often' is not a duration above zero"

    def test_is_told_and_not_tried_again(self, service: Service) -> None:
        service.restart(unit="RestartSec=100ms", SIDECAR_POLL_INTERVAL="often")

        assert service.shown("ActiveState") == "failed"
        assert service.shown("NRestarts") == "0"
        assert self.WRONG in service.shown("StatusText")
        assert f'Status: "{self.WRONG}' in service.status
        told = "\n".join(service.journal)
        assert f"capacity-sidecar: {self.WRONG}" in told
        assert "Traceback" not in told

    def test_mended_it_runs(self, service: Service) -> None:
        service.restart(SIDECAR_POLL_INTERVAL="often")
        service.restart()

        assert service.shown("ActiveState") == "active"


class TestRights:
    def test_systemd_finds_it_hardened(self, service: Service) -> None:
        service.restart()

        found = service.machine.run("systemd-analyze", "security", "capacity-sidecar")

        exposure = re.search(r"Overall exposure level .*: (\d+\.\d)", found)
        assert exposure
        assert float(exposure[1]) <= 1.5

    def test_it_is_nobody(self, service: Service) -> None:
        service.restart()

        status = service.machine.run("cat", f"/proc/{service.shown('MainPID')}/status")

        uid = re.search(r"^Uid:\t(\d+)\t", status, re.MULTILINE)
        assert uid
        assert int(uid[1]) >= 61184  # systemd's range of dynamic users
        assert re.search(r"^CapBnd:\t0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)

    def test_a_secret_is_a_file_that_only_root_reads(self, service: Service) -> None:
        target = {"SIDECAR_TARGETS": "127.0.0.1:8001"}
        service.restart(**POLL, **target)
        service.wait_for_status("it wants a token")

        secret = "/etc/capacity-sidecar/SIDECAR_BEARER_TOKEN"
        service.machine.write(secret, "s3cret\n", 0o600)
        service.restart(**POLL, **target)

        service.wait_for_status("127.0.0.1:8001 is idle")
        assert "s3cret" not in "\n".join(service.journal)
        service.machine.run("rm", secret)
