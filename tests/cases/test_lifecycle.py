from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cases.cases import covers, covers_parts, expected, table
from tests.cases.conftest import Serve
from tests.cases.servers import PATIENCE, Answer, Server, always, worker_page
from tests.process.commands import ROOT, environ, finish, start
from tests.process.daemon import Daemon
from tests.process.sockets import reserved_port
from tests.process.waiting import until

pytestmark = pytest.mark.process

StartDaemon = Callable[..., Daemon]

SLOW = ("pydantic", "prometheus_client", "requests", "structlog", "sidecar.settings")
SPY = """
import runpy, signal, sys
install = signal.signal
def spy(number, handler):
    if number == signal.SIGTERM:
        print(*sys.modules)
    return install(number, handler)
signal.signal = spy
sys.argv = ["capacity-sidecar", "--version"]
runpy.run_module("sidecar", run_name="__main__")
"""
"""Runs the command and prints what was imported when it installed its handler."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts daemons with settings by their full names, and kills what is left."""
    with ExitStack() as stack:

        def begin(**settings: str) -> Daemon:
            port = stack.enter_context(reserved_port())
            started = Daemon(tmp_path, port, settings)
            stack.callback(started.close)
            return started

        yield begin


def handles_sigterm(pid: int) -> bool:
    """Whether the process has put its own handler in place."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [x.split()[1] for x in status.splitlines() if x.startswith("SigCgt:")]
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


class TestSigterm:
    CASE = "41-sigterm-as-pid-1"

    @pytest.fixture
    def variants(
        self, serve: Serve, daemon: StartDaemon
    ) -> dict[str, Callable[[], Daemon]]:
        """Each brings a daemon to the point where the signal comes."""
        interval = f"{table(self.CASE, 'steps.json')['interval_s']}s"
        worker = serve(always(worker_page(1)))

        def begin(worker: Server) -> Daemon:
            return daemon(SIDECAR_TARGETS=worker.url, SIDECAR_POLL_INTERVAL=interval)

        def sleeping() -> Daemon:
            started = begin(worker)
            started.wait_for_page()
            started.wait_for("sidecar_polls_total", outcome="ok")
            return started

        def scraping() -> Daemon:
            hung = serve(always(Answer(hangs=True)))
            started = begin(hung)
            hung.wait_for(1)
            return started

        def just_begun() -> Daemon:
            started = begin(worker)
            # Before that only process 1 would survive the signal, and not see it.
            until(lambda: handles_sigterm(started.pid), "the handler is in place")
            assert not worker.requests
            return started

        def ending() -> Daemon:
            started = sleeping()
            os.kill(started.pid, signal.SIGTERM)
            return started

        return {
            "sleep": sleeping,
            "hanging scrape": scraping,
            "right after exec": just_begun,
            "two signals": ending,
        }

    @covers_parts([CASE], lambda case: table(case, "steps.json")["variants"])
    def test_sigterm(self, case: str, part: str, variants: dict[str, Any]) -> None:
        self.ends(case, part, variants, signal.SIGTERM)

    @covers(CASE)
    def test_sigint(self, case: str, variants: dict[str, Any]) -> None:
        assert expected(case)["sigint"] == "as SIGTERM"
        self.ends(case, "sleep", variants, signal.SIGINT)

    def ends(self, case: str, part: str, variants: dict[str, Any], signum: int) -> None:
        words = expected(case)
        started = variants[part]()

        status, seconds = started.end(signum)

        assert status == words["exit_code"]
        assert seconds < words["max_seconds"][part]
        assert "Traceback" not in started.err.read_text()

    @covers(CASE)
    def test_the_handler_comes_before_anything_slow(self, case: str) -> None:
        """However long the imports take, a signal during them is not lost."""
        assert "right after exec" in expected(case)["max_seconds"]

        ended = subprocess.run(
            [sys.executable, "-c", SPY],
            cwd=ROOT,
            env=environ({}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )

        loaded, *rest = ended.stdout.splitlines()
        assert rest
        assert {"signal", "sidecar"} <= {*loaded.split()}
        assert {*loaded.split()}.isdisjoint(SLOW)


class TestDelete:
    CASE = "33-pushgateway-shutdown-delete"

    @pytest.fixture
    def gateway(self, serve: Serve) -> Server:
        return serve(always(Answer(202)))

    @pytest.fixture
    def pushing(self, serve: Serve, gateway: Server, daemon: StartDaemon) -> Daemon:
        """A daemon that has pushed as often as the case says."""
        finished = iter(range(0, 1_000_000, 20))
        worker = serve(lambda _: worker_page(next(finished)))
        started = daemon(
            SIDECAR_TARGETS=worker.url,
            SIDECAR_PUSHGATEWAY_URL=gateway.url,
            SIDECAR_WORKER="gpu-1",
        )
        gateway.wait_for(self.pushes, "PUT")
        return started

    @property
    def pushes(self) -> int:
        return [each["method"] for each in expected(self.CASE)["requests"]].count("PUT")

    @covers(CASE)
    def test_the_group_goes_with_the_daemon(
        self, case: str, pushing: Daemon, gateway: Server
    ) -> None:
        words = expected(case)

        status, seconds = pushing.end()

        assert status == words["exit_code"]
        assert seconds < words["max_shutdown_seconds"]
        methods = [request.method for request in gateway.requests]
        paths = {request.path for request in gateway.requests}
        # The daemon may have pushed once more before the signal came.
        extra = len(methods) - len(words["requests"])
        assert methods[extra:] == [each["method"] for each in words["requests"]]
        assert {*methods[:extra]} <= {"PUT"}
        assert (len(paths) == 1) == words["same_path"]
        assert ("gpu-1" in paths.pop()) == words["path_contains_instance"]

    @pytest.mark.parametrize("how", ["refuses", "hangs"])
    @covers(CASE)
    def test_a_gateway_that_is_away(
        self, case: str, how: str, pushing: Daemon, gateway: Server
    ) -> None:
        words = expected(case)["unreachable_gateway"]
        if how == "refuses":
            gateway.close()
        gateway.answer = always(Answer(hangs=True))

        status, seconds = pushing.end()

        assert status == words["exit_code"]
        assert seconds < words["max_shutdown_seconds"]


@covers("40-engine-starts-late")
def test_the_daemon_outlives_an_engine_that_starts_late(
    case: str, serve: Serve, daemon: StartDaemon
) -> None:
    words = expected(case)
    server = serve(always(worker_page(1)), listening=False)
    started = daemon(SIDECAR_TARGETS=server.url, SIDECAR_POLL_INTERVAL="100ms")
    started.wait_for_page()
    refused = sum(poll["status"] == "scrape_error" for poll in words["polls"])
    started.wait_for("sidecar_polls_total", above=refused - 1, outcome="refused")

    server.open()

    started.wait_for("sidecar_polls_total", outcome="ok")
    # Nobody would restart it, so it has never ended.
    assert words["restarts"] == 0
    assert (started.process.poll() is None) == words["process_alive"]
    about = started.logged("refuses connections")
    assert 1 <= len(about) <= words["log_lines_about_refused_max"]


@covers("45-interval-values")
def test_a_wrong_interval_ends_the_process(case: str) -> None:
    rule = expected(case)["config_error"]
    wrong = {"SIDECAR_POLL_INTERVAL": "abc", "SIDECAR_MULTIPLIER": "nan"}

    ended = finish(start(["run"], wrong))

    assert (ended.returncode != 0) == rule["exit_code_nonzero"]
    assert ("Traceback" in ended.stderr) == rule["traceback"]
    named = [f"{name}={value!r}" in ended.stderr for name, value in wrong.items()]
    assert any(named) == rule["names_variable_and_value"]
    assert all(named) == rule["all_errors_at_once"]
