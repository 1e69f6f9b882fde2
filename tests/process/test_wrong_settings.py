from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.environment import Variable, variables
from tests.process.commands import Finished, finish, sentences, start

pytestmark = pytest.mark.process

NOT_UTF8 = "\udcff"
"""What the byte FF becomes in an environment: wrong where any other text is right."""

WRONG = {
    "SIDECAR_ENABLED": "maybe",
    "SIDECAR_TARGETS": "127.0.0.1:8000,127.0.0.1:99999",
    "SIDECAR_METRICS_PORT": "65536",
    "SIDECAR_DISCOVERY": "dns",
    "SIDECAR_ENGINE": "vlm",
    "SIDECAR_METRICS_PATH": "metrics",
    "SIDECAR_BEARER_TOKEN": "two\nlines",
    "SIDECAR_TLS_CA_FILE": __file__,
    "SIDECAR_TLS_SKIP_VERIFY": "2",
    "SIDECAR_POLL_INTERVAL": "10ms",
    "SIDECAR_SCRAPE_TIMEOUT": "-1s",
    "SIDECAR_MULTIPLIER": "0",
    "SIDECAR_MIN_CAPACITY": "nan",
    "SIDECAR_ESTIMATOR": "best",
    "SIDECAR_RATE_AGGREGATION": "p101",
    "SIDECAR_RATE_WINDOW": "5 minutes",
    "SIDECAR_MAX_CONCURRENCY": "many",
    "SIDECAR_LATENCY_OBJECTIVE": "inf",
    "SIDECAR_STATE_FILE": "/nowhere/state.json",
    "SIDECAR_TAG": "meta-llama",
    "SIDECAR_MODEL_IDENTIFIER": "a/b",
    "SIDECAR_WORKER": NOT_UTF8,
    "SIDECAR_LABELS": "tag=mine",
    "SIDECAR_SINKS": "prometheus,graphite",
    "SIDECAR_LISTEN": "everywhere",
    "SIDECAR_RETIRE_AFTER": "never",
    "SIDECAR_LOG_LEVEL": "verbose",
    "SIDECAR_LOG_FORMAT": "xml",
    "SIDECAR_PUSHGATEWAY_URL": "pushgateway:9091",
    "SIDECAR_PUSHGATEWAY_JOB": NOT_UTF8,
    "SIDECAR_PUSHGATEWAY_INTERVAL": "0",
    "SIDECAR_PUSHGATEWAY_TIMEOUT": "soon",
    "SIDECAR_PUSHGATEWAY_USERNAME": NOT_UTF8,
    "SIDECAR_PUSHGATEWAY_PASSWORD": NOT_UTF8,
    "SIDECAR_PUSHGATEWAY_BEARER_TOKEN": "tökén",
    "SIDECAR_CLOUD_MONITORING_PROJECT": "projects/mine",
    "SIDECAR_CLOUD_MONITORING_INTERVAL": "1s",
    "SIDECAR_CLOUD_MONITORING_PREFIX": "custom.googleapis.com/vllm:load",
    "SIDECAR_CLOUD_MONITORING_METRICS": ",",
    "SIDECAR_CLOUD_MONITORING_RESOURCE_TYPE": "global",
    "SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS": "zone",
    "SIDECAR_CLOUD_MONITORING_TIMEOUT": "0",
    "SIDECAR_CLOUD_MONITORING_ENDPOINT": "a b",
    "SIDECAR_CLOUD_MONITORING_INSECURE": "maybe",
}

UNKNOWN = {
    "SIDECAR_POL_INTERVAL": "SIDECAR_POLL_INTERVAL",
    "SIDECAR_PUSHGATEWAY_URI": "SIDECAR_PUSHGATEWAY_URL",
    "SIDECAR_TARGET": "SIDECAR_TARGETS",
}


@dataclass(frozen=True)
class Case:
    """Settings that do not fit, and what each sentence about them must name."""

    settings: dict[str, str]
    sentences: list[tuple[str, ...]]


CASES = {
    "between settings": Case(
        {
            "SIDECAR_SCRAPE_TIMEOUT": "10s",
            "SIDECAR_POLL_INTERVAL": "5s",
            "SIDECAR_LABELS_FILE": "labels.txt",
        },
        [
            ("SIDECAR_LABELS_FILE is not a setting",),
            ("SIDECAR_SCRAPE_TIMEOUT=10s", "SIDECAR_POLL_INTERVAL=5s"),
        ],
    ),
    "files": Case(
        {
            "SIDECAR_BEARER_TOKEN": "s3cret",
            "SIDECAR_BEARER_TOKEN_FILE": "/proc/version",
            "SIDECAR_PUSHGATEWAY_PASSWORD_FILE": "/nonexistent/password",
            "SIDECAR_TLS_CA_FILE": "/nonexistent/ca.pem",
        },
        [
            ("SIDECAR_BEARER_TOKEN and SIDECAR_BEARER_TOKEN_FILE", "both set"),
            ("PASSWORD_FILE='/nonexistent/password'", "No such file"),
            ("SIDECAR_TLS_CA_FILE='/nonexistent/ca.pem'", "No such file"),
        ],
    ),
    "user without password": Case(
        {"SIDECAR_PUSHGATEWAY_USERNAME": "me"},
        [("SIDECAR_PUSHGATEWAY", "both a user name and a password")],
    ),
    "user and token": Case(
        {
            "SIDECAR_PUSHGATEWAY_USERNAME": "me",
            "SIDECAR_PUSHGATEWAY_PASSWORD": "s3cret",
            "SIDECAR_PUSHGATEWAY_BEARER_TOKEN": "s3cret",
        },
        [("SIDECAR_PUSHGATEWAY", "a bearer token or a user name, not both")],
    ),
    "sink without address": Case(
        {"SIDECAR_SINKS": "pushgateway"},
        [("SIDECAR_SINKS", "SIDECAR_PUSHGATEWAY_URL", "http://pushgateway:9091")],
    ),
    "Dynamo's ports": Case(
        {"DYN_SYSTEM_PORT": "40000", "DYN_SYSTEM_PORT1": "http"},
        [
            ("DYN_SYSTEM_PORT='40000'", "32767", "DYN_SYSTEM_PORT=8081"),
            ("DYN_SYSTEM_PORT1='http'", "32767", "DYN_SYSTEM_PORT1=8081"),
        ],
    ),
    "address of another machine": Case(
        {"SIDECAR_LISTEN": "192.0.2.1:9846"},
        [("SIDECAR_LISTEN='192.0.2.1:9846'", "127.0.0.1:9847")],
    ),
    "address that is taken": Case(
        {"SIDECAR_LISTEN": "taken"},
        [("SIDECAR_LISTEN='127.0.0.1:", "in use", "127.0.0.1:9847")],
    ),
}


@pytest.fixture(scope="module")
def refusal() -> Finished:
    """Everything wrong at once, in one start."""
    return finish(start(["run"], {**WRONG, **dict.fromkeys(UNKNOWN, "1")}))


@pytest.fixture(scope="module")
def refusals() -> dict[str, Finished]:
    """What is wrong in another way, each with a start of its own."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        started = {
            name: start(
                ["run"],
                {n: address if v == "taken" else v for n, v in case.settings.items()},
            )
            for name, case in CASES.items()
        }
        return {name: finish(process) for name, process in started.items()}


def about(name: str, refusal: Finished) -> list[str]:
    """The sentences that begin with the variable."""
    starts = tuple(f"capacity-sidecar: {name}{sign}" for sign in "=: ")
    return [text for text in sentences(refusal.stderr) if text.startswith(starts)]


def test_table_covers_every_variable() -> None:
    assert WRONG.keys() == {variable.name for variable in variables()}


@pytest.mark.parametrize("variable", list(variables()), ids=lambda v: str(v.name))
def test_wrong_value(refusal: Finished, variable: Variable) -> None:
    wrong = WRONG[variable.name]

    said = about(variable.name, refusal)

    assert len(said) == 1, refusal.stderr
    if wrong == NOT_UTF8:
        assert "UTF-8" in said[0]
    elif variable.is_secret:
        assert f"{variable.name}=*** " in said[0]
        assert wrong not in refusal.stderr
    else:
        assert f"{variable.name}={wrong!r} " in said[0]
    if variable.field.examples:
        assert f"for example {variable.name}={variable.field.examples[0]}" in said[0]


def test_every_problem_is_said_at_once_and_nothing_else(refusal: Finished) -> None:
    assert refusal.returncode == 2
    assert refusal.stdout == ""
    assert len(sentences(refusal.stderr)) == len(WRONG) + len(UNKNOWN)


@pytest.mark.parametrize(("unknown", "nearest"), UNKNOWN.items())
def test_unknown_variable(refusal: Finished, unknown: str, nearest: str) -> None:
    said = f"{unknown} is not a setting; did you mean {nearest}?"

    assert about(unknown, refusal) == [f"capacity-sidecar: {said}"]


@pytest.mark.parametrize("name", CASES)
def test_settings_that_do_not_fit(refusals: dict[str, Finished], name: str) -> None:
    refused, expected = refusals[name], CASES[name].sentences

    said = sentences(refused.stderr)

    assert len(said) == len(expected)
    for text, parts in zip(said, expected, strict=True):
        assert text.startswith("capacity-sidecar: ")
        assert [part for part in parts if part not in text] == [], text
        assert "s3cret" not in text
    assert (refused.returncode, refused.stdout) == (2, "")


def test_every_command_refuses_a_wrong_setting(tmp_path: Path) -> None:
    trace, wrong = str(tmp_path / "trace.csv"), {"SIDECAR_POLL_INTERVAL": "5 days"}
    commands = (
        ["check"],
        ["config"],
        ["once"],
        ["record", "127.0.0.1:9", "--output", trace],
        ["replay", trace],
    )

    for refused in [finish(p) for p in [start(c, wrong) for c in commands]]:
        (said,) = sentences(refused.stderr)
        assert "SIDECAR_POLL_INTERVAL='5 days'" in said
        assert (refused.returncode, refused.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == []
