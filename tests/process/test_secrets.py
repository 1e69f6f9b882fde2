from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.simulator import SimulatedWorker
from tests.process.commands import Finished, finish, run, sentences, start
from tests.process.conftest import StartDaemon
from tests.process.debian import Pushgateway
from tests.process.sockets import Echo
from tests.process.web import fetch

pytestmark = pytest.mark.process

TOKEN, GATEWAY_TOKEN, PASSWORD = "w0rker-t0ken", "gateway/t0ken==", "pässwörd €1"
USER = "mé"
PAIR = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SECRETS = (TOKEN, GATEWAY_TOKEN, PASSWORD, PAIR)

HASH = "$2b$04$abcdefghijklmnopqrstuuLGj5gOlMIRnNMePt7TxNB30Ii.ily2C"
"""The password above as crypt(3) gives it, which is what the gateway keeps."""

BASIC = {
    "SIDECAR_PUSHGATEWAY_USERNAME": USER,
    "SIDECAR_PUSHGATEWAY_PASSWORD": PASSWORD,
}


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A gateway that refuses, and repeats the credentials in its answer."""
    with Echo().serving() as echo:
        yield echo


def shown_by(*finished: Finished) -> str:
    return "".join(each.stdout + each.stderr for each in finished)


def leaked(text: str) -> list[str]:
    """The secrets that stand in a text, also as JSON writes them."""
    forms = {secret: (secret, json.dumps(secret)[1:-1]) for secret in SECRETS}
    return [secret for secret in SECRETS if any(f in text for f in forms[secret])]


@pytest.mark.parametrize("basic", [False, True])
def test_no_output_has_a_secret_in_it(
    worker: SimulatedWorker,
    echo: Echo,
    start_daemon: StartDaemon,
    tmp_path: Path,
    basic: bool,
) -> None:
    settings = {"SIDECAR_BEARER_TOKEN": TOKEN}
    if basic:
        password = tmp_path / "password"
        password.write_text(f"{PASSWORD}\n", encoding="utf-8")
        settings["SIDECAR_PUSHGATEWAY_USERNAME"] = USER
        settings["SIDECAR_PUSHGATEWAY_PASSWORD_FILE"] = str(password)
    else:
        # A secret made with echo ends in a line break.
        settings["SIDECAR_PUSHGATEWAY_BEARER_TOKEN"] = f"{GATEWAY_TOKEN}\n"
    settings |= {
        "SIDECAR_TARGETS": worker.url,
        "SIDECAR_PUSHGATEWAY_URL": f"http://{echo.address}",
        "SIDECAR_POLL_INTERVAL": "200ms",
        "SIDECAR_LOG_LEVEL": "debug",
    }
    commands = (
        ["config"],
        ["config", "--output", "json"],
        ["check"],
        ["once"],
        ["record", worker.url, "--output", "/dev/null", "--seconds", "0.1"],
        ["record", echo.address, "--output", "/dev/null", "--seconds", "0.1"],
    )

    daemon = start_daemon(settings).wait_for_page()
    finished = [finish(p) for p in [start(c, settings) for c in commands]]
    daemon.wait_for("sidecar_dropped_total", reason="http_401", above=1)
    pages = [fetch(daemon.url + path) for path in ("/", "/status", "/metrics")]
    assert daemon.end()[0] == 0

    shown = f"Basic {PAIR}" if basic else f"Bearer {GATEWAY_TOKEN}"
    assert {shown, f"Bearer {TOKEN}"} == set(echo.shown)
    assert [p.returncode for p in finished] == [0, 0, 1, 1, 0, 1]
    said = [*daemon.logged("you said"), shown_by(*finished), *pages]
    assert (
        leaked("".join([*said, daemon.err.read_text(), daemon.out.read_text()])) == []
    )
    for text in said[:2]:
        kind = "Basic" if basic else "Bearer"
        assert f"you said {kind} ***, which is" in text
        assert "SIDECAR_PUSHGATEWAY_USERNAME and _PASSWORD" in text
    sentences(shown_by(*finished))


def test_real_gateway_with_a_password(
    worker: SimulatedWorker, stopped_gateway: Pushgateway, tmp_path: Path
) -> None:
    users = tmp_path / "web.json"
    users.write_text(json.dumps({"basic_auth_users": {USER: HASH}}), encoding="utf-8")
    stopped_gateway.start(f"--web.config.file={users}")
    settings = {
        "SIDECAR_TARGETS": worker.url,
        "SIDECAR_POLL_INTERVAL": "200ms",
        "SIDECAR_PUSHGATEWAY_URL": stopped_gateway.url,
    }
    wrong = {**BASIC, "SIDECAR_PUSHGATEWAY_PASSWORD": "wrong"}
    commands = [(["check"], BASIC), (["once"], BASIC), (["once"], wrong)]

    checked, sent, refused = (
        finish(p) for p in [start(c, {**settings, **user}) for c, user in commands]
    )

    assert (checked.returncode, sent.returncode, refused.returncode) == (0, 0, 1)
    assert "answers 401 to PUT" in sentences(refused.stderr)[-1]
    assert leaked(shown_by(checked, sent, refused)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SIDECAR_TARGETS", "me:{}@127.0.0.1:8000"),
        ("SIDECAR_TARGETS", "http://me:{}@127.0.0.1:99999/metrics"),
        ("SIDECAR_TARGETS", "127.0.0.1:1,ftp://me:x@{}@127.0.0.1"),
        ("SIDECAR_PUSHGATEWAY_URL", "me:{}@gateway"),
        ("SIDECAR_PUSHGATEWAY_URL", "https://{}@gateway:9091"),
        ("SIDECAR_LISTEN", "http://me:{}@127.0.0.1:x"),
    ],
)
def test_password_in_an_address_is_refused_and_not_shown(name: str, value: str) -> None:
    refused = run("config", **{name: value.format(TOKEN)})

    (said,) = sentences(refused.stderr)

    assert said.startswith(f"capacity-sidecar: {name}='")
    assert "***@" in said
    assert TOKEN not in said
    assert refused.returncode == 2
