"""The commands in this process; tests/process runs them as a user does."""

from __future__ import annotations

import json

import pytest

from sidecar import cli
from tests.unit.http_worker import answer, peer
from tests.unit.makers import page
from tests.unit.running import run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_POLL_INTERVAL", "100ms")


class TestArguments:
    @pytest.mark.parametrize("arguments", [[], ["walk"], ["run", "--fast"]])
    def test_what_is_not_a_command(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(*arguments) == 2

        assert "usage: capacity-sidecar" in capsys.readouterr().err

    def test_every_command_has_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        for command in cli.COMMANDS:
            assert run(command, "--help") == 0
            assert cli.COMMANDS[command] in capsys.readouterr().out

    def test_the_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("--version") == 0

        assert capsys.readouterr().out.startswith("capacity-sidecar ")


class TestConfig:
    def test_values_and_origins(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_BEARER_TOKEN", "tok-123")
        monkeypatch.setenv("SIDECAR_LABELS", "gpu=l4")

        assert run("config") == 0

        out = capsys.readouterr().out
        rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
        assert rows["SIDECAR_POLL_INTERVAL"] == ["0.1", "environment"]
        assert rows["SIDECAR_MULTIPLIER"] == ["1", "default"]
        assert rows["SIDECAR_LABELS"] == ["gpu=l4", "environment"]
        assert rows["SIDECAR_BEARER_TOKEN"] == ["***", "environment"]
        assert "tok-123" not in out

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("config", "--output", "json") == 0

        found = json.loads(capsys.readouterr().out)
        assert found["SIDECAR_POLL_INTERVAL"] == {
            "value": 0.1,
            "origin": "SIDECAR_POLL_INTERVAL",
        }

    def test_the_reference(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("config", "--output", "markdown") == 0

        assert "| `SIDECAR_MULTIPLIER` | `1` |" in capsys.readouterr().out

    def test_a_wrong_setting(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_MULTIPLIER", "0")
        monkeypatch.setenv("SIDECAR_ENGINE", "x")

        assert run("config") == 2

        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2
        assert all(line.startswith("capacity-sidecar: SIDECAR_") for line in lines)


class TestCheck:
    @pytest.mark.usefixtures("worker")
    def test_a_worker(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("check") == 0

        out = capsys.readouterr().out
        assert "taken" in out
        assert "a vllm worker, model demo/model" in out
        assert 'num_loaded_models_demo_model{tag="demo_model"' in out

    def test_none(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_TARGETS", "127.0.0.1:9")

        assert run("check") == 1

        out = capsys.readouterr().out
        assert "nothing listens there" in out
        assert "nothing for http://127.0.0.1:9" in out

    def test_a_frontend(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        body = page("dynamo-1.6.1-frontend-idle")
        with peer(lambda _: answer(body)) as found:
            monkeypatch.setenv("SIDECAR_TARGETS", found.target.address)
            assert run("check") == 1

        assert "this is a Dynamo frontend" in capsys.readouterr().out

    @pytest.mark.usefixtures("worker")
    def test_a_sink_that_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_PUSHGATEWAY_URL", "http://127.0.0.1:9")

        assert run("check") == 1

        assert "FAIL  pushgateway" in capsys.readouterr().out


class TestOnce:
    @pytest.mark.usefixtures("worker")
    def test_the_exact_readings(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("once", "--dry-run") == 0

        out = capsys.readouterr().out
        assert "demo/model, idle" in out
        assert "llm_worker_utilization" in out
        assert "no capacity yet" in out

    @pytest.mark.usefixtures("worker")
    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("once", "--dry-run", "--output", "json") == 0

        found = json.loads(capsys.readouterr().out)
        assert found["state"] == "idle"
        assert found["gauges"]["llm_worker_utilization"] == 0.0

    @pytest.mark.usefixtures("worker")
    def test_it_publishes_unless_told_not_to(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with peer(lambda _: answer("")) as gateway:
            url = f"http://{gateway.target.address}"
            monkeypatch.setenv("SIDECAR_PUSHGATEWAY_URL", url)
            assert run("once", "--dry-run") == 0
            assert gateway.requests == []
            assert run("once") == 0

        assert [text.split()[0] for text in gateway.requests] == ["PUT"]
        assert capsys.readouterr().err == ""

    def test_a_worker_that_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SIDECAR_TARGETS", "127.0.0.1:9")

        assert run("once") == 1

        assert "127.0.0.1:9: it refuses" in capsys.readouterr().err


class TestDemo:
    def test_a_short_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("demo", "--seconds", "3.5", "--listen", "127.0.0.1:0") == 0

        out = capsys.readouterr().out
        assert "21.4 requests/s" in out
        assert "/healthz" not in out
        assert out.splitlines()[-1].split()[5] == "serving"

    def test_a_wrong_length(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("demo", "--seconds", "x") == 2

        assert "--seconds 'x' is not a duration" in capsys.readouterr().err
