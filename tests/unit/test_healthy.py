"""The command that probes the daemon's own page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from sidecar.server import TEXT, Server
from tests.process.sockets import Silence, reserved_port
from tests.unit.running import run


@contextmanager
def serving(host: str, status: HTTPStatus, body: str) -> Iterator[str]:
    """A page whose /healthz answers so; the port it is on."""
    server = Server(f"{host}:0", {"/healthz": lambda: (status, TEXT, body.encode())})
    server.start()
    yield server.url.rpartition(":")[2]
    server.stop()


class TestHealthy:
    @pytest.mark.parametrize(
        ("bound", "asked"),
        [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("[::]", "[::1]"),
            ("[::1]", "[::1]"),
        ],
    )
    def test_asks_where_the_daemon_listens(
        self,
        bound: str,
        asked: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with serving(bound, HTTPStatus.OK, "ok\n") as port:
            monkeypatch.setenv("SIDECAR_LISTEN", f" '{bound}:{port}'")
            monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

            assert run("healthy") == 0

        assert capsys.readouterr().out == f"http://{asked}:{port}/healthz: ok\n"

    def test_a_loop_that_stands_still(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stuck = (HTTPStatus.SERVICE_UNAVAILABLE, "the loop has not turned lately\n")
        with serving("127.0.0.1", *stuck) as port:
            monkeypatch.setenv("SIDECAR_LISTEN", f"127.0.0.1:{port}")

            assert run("healthy") == 1

        assert capsys.readouterr().err == (
            f"capacity-sidecar: http://127.0.0.1:{port}/healthz: 503: "
            "the loop has not turned lately\n"
        )

    def test_nobody_listens(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with reserved_port() as port:
            monkeypatch.setenv("SIDECAR_LISTEN", f"127.0.0.1:{port}")

            assert run("healthy") == 1

        assert "Connection refused" in capsys.readouterr().err

    def test_no_answer(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sidecar.commands.healthy.LIMIT", 0.1)
        with Silence() as silence:
            monkeypatch.setenv("SIDECAR_LISTEN", silence.address)

            assert run("healthy") == 1

        assert "timed out" in capsys.readouterr().err

    def test_without_a_page_there_is_nothing_to_ask(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_LISTEN", "off")

        assert run("healthy") == 0

        assert capsys.readouterr().out.startswith("SIDECAR_LISTEN is off")

    def test_a_wrong_address(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_LISTEN", "everywhere")

        assert run("healthy") == 2

        error = capsys.readouterr().err
        assert error.startswith("capacity-sidecar: SIDECAR_LISTEN='everywhere' is not")

    def test_starts_without_the_settings(self) -> None:
        """A probe comes every few seconds: it may not cost what the daemon costs."""
        code = "import sys, sidecar.commands.healthy; print('pydantic' in sys.modules)"

        done = subprocess.run([sys.executable, "-c", code], capture_output=True)

        assert done.stdout == b"False\n"
