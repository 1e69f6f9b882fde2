from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from sidecar import cli, discovery, environment, log, sinks, target
from sidecar.errors import ScrapeError, SettingsError
from sidecar.metadata import MetadataServer as Metadata
from sidecar.reading import Identity, Reading, Values
from sidecar.sample import Sample
from sidecar.service import Service
from sidecar.settings import Settings
from sidecar.signals import StopRequest
from sidecar.sinks.cloud_monitoring import client
from sidecar.states import State
from sidecar.target import Target
from sidecar.worker import read_once
from tests.cases.adapter import port_word
from tests.cases.cases import covers, expected, table
from tests.cases.conftest import Network, Serve
from tests.cases.servers import Answer, Request, worker_page

CONFIG_ERROR = "config_error"
DYNAMO = "DYN_SYSTEM_PORT"


class Nobody:
    """Discovery on a machine where nothing answers."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.asked: list[Target] = []
        settings = environment.load(environ).settings
        found = discovery.sources(settings, environ, lambda: iter(()), list)
        self.found = discovery.discover(found, self._probe)

    def _probe(self, candidate: Target) -> Sample:
        self.asked.append(candidate)
        raise ScrapeError("nobody is here", reason="refused")


def dynamo(environ: Mapping[str, str]) -> object:
    """What comes of Dynamo's variable, in the case's words."""
    try:
        nobody = Nobody(environ)
    except SettingsError:
        return CONFIG_ERROR
    assert all(candidate.port > 0 for candidate in nobody.asked)
    if nobody.found.targets:
        (taken,) = nobody.found.targets
        return taken.port
    # The next sources were asked.
    assert any(verdict.source == "usual ports" for verdict in nobody.found.verdicts)
    (reason,) = [v.reason for v in nobody.found.verdicts if v.source == DYNAMO]
    return port_word(reason)


def accepted(row: Any) -> list[Any]:
    """What a row of expectations allows."""
    if isinstance(row, dict):
        return list(row["accept_any_of"])
    return [row]


def run(environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> int:
    """A command that would poll, in this environment; only for errors."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return cli.run(["once"], StopRequest())


@covers("18-dyn-system-port-values")
def test_ports_of_dynamo(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = expected(case)
    rows = table(case, "env-table.json")

    for row, allowed in zip(rows, words["rows"], strict=True):
        environ = {name: value for name, value in row.items() if value is not None}
        outcome = dynamo(environ)

        assert outcome in accepted(allowed), row
        assert isinstance(outcome, int) or outcome in words["meaning"]
        if outcome == CONFIG_ERROR:
            assert run(environ, monkeypatch) == cli.MISCONFIGURED
            printed = capsys.readouterr().err
            assert f"{DYNAMO}={environ[DYNAMO]!r}" in printed
            assert "Traceback" not in printed


@covers("19-service-link-variables")
def test_service_links(case: str) -> None:
    """What Kubernetes injects for the services of others is no setting of ours."""
    words, environ = expected(case)["env.json"], table(case, "env.json")

    nobody = Nobody(environ)
    settings = environment.load(environ).settings
    service = Service(settings, log.logger(settings, io.StringIO()), environ)
    if service.server:
        service.server.stop()

    (taken,) = nobody.found.targets
    assert taken.port == words["metrics_port"]
    configured = "pushgateway" in sinks.chosen(settings)
    assert configured == words["pushgateway_configured"]
    assert words["process_starts"]


@covers("19-service-link-variables")
def test_a_service_link_alone(case: str) -> None:
    words = expected(case)["env-2.json"]

    nobody = Nobody(table(case, "env-2.json"))

    wrong = {
        # It would have been raised above.
        "int() traceback": False,
        "polling port 10": any(each.port == 10 for each in nobody.asked),
        "polling 10.96.0.10 (a service address, other replicas)": not all(
            each.is_loopback for each in nobody.asked
        ),
    }
    assert not any(wrong[text] for text in words["must_not"])
    assert nobody.asked
    assert not nobody.found.targets
    reason = {verdict.reason for verdict in nobody.found.verdicts}
    assert reason >= {"not set", "nothing found", "nobody is here"}
    assert words["metrics_port"] == "next discovery source"


VARIABLES = {
    "SIDECAR_POLL_INTERVAL": "poll_interval",
    "SIDECAR_MULTIPLIER": "multiplier",
}


@pytest.mark.parametrize("variable", VARIABLES)
@covers("45-interval-values")
def test_numbers(case: str, variable: str) -> None:
    values, rows = table(case, "values.json"), expected(case)["rows"]

    for value, allowed in zip(values, rows, strict=True):
        outcome: object = CONFIG_ERROR
        try:
            loaded = environment.load({variable: value})
        except SettingsError:
            pass
        else:
            outcome = getattr(loaded.settings, VARIABLES[variable])
            if variable not in loaded.origins:
                assert outcome == Settings.model_fields[VARIABLES[variable]].default
                outcome = "default"
        assert outcome in accepted(allowed), value


@covers("45-interval-values")
def test_wrong_numbers_are_named_all_at_once(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = expected(case)
    pairs = zip(table(case, "values.json"), words["rows"], strict=True)
    wrong = [value for value, allowed in pairs if allowed == CONFIG_ERROR]
    rule = words["config_error"]

    for value, other in zip(wrong, wrong[::-1], strict=True):
        environ = dict(zip(VARIABLES, (value, other), strict=True))

        status = run(environ, monkeypatch)
        printed = capsys.readouterr().err

        assert (status != 0) == rule["exit_code_nonzero"]
        assert ("Traceback" in printed) == rule["traceback"]
        named = [f"{name}={text!r}" in printed for name, text in environ.items()]
        assert any(named) == rule["names_variable_and_value"]
        assert all(named) == rule["all_errors_at_once"]
    assert wrong


METADATA = "metadata.google.internal"
"""Only the Cloud Monitoring sink asks it: for what it is part of, and for tokens."""


@covers("43-proxy-variables")
def test_proxies(
    case: str, serve: Serve, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request goes where the case has it go, or to its proxy, both recorded."""

    def answer(request: Request) -> Answer:
        if request.headers.get("metadata-flavor"):
            return Answer(headers={"Metadata-Flavor": "Google"}, body=b"a-project")
        return worker_page(1) if request.method == "GET" else Answer()

    direct, proxy = serve(answer), serve(answer)
    network.route("proxy.example", 3128, ("127.0.0.1", proxy.port))
    urls = table(case, "requests.json")
    for url in urls:
        parts = urlsplit(url)
        assert parts.hostname is not None
        network.route(parts.hostname, parts.port or 80, ("127.0.0.1", direct.port))

    rows = zip(table(case, "env.json"), expected(case)["via_proxy"], strict=True)
    for environ, via_proxy in rows:
        with monkeypatch.context() as patch:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
                patch.delenv(name, raising=False)
                patch.delenv(name.lower(), raising=False)
            for name, value in environ.items():
                patch.setenv(name, value)
            for url, wanted in zip(urls, via_proxy, strict=True):
                direct.requests.clear()
                proxy.requests.clear()
                request(url)
                assert bool(proxy.requests) == wanted, (environ, url)
                assert bool(direct.requests) != wanted, (environ, url)


def request(url: str) -> None:
    """Ask a worker or the metadata server, or push to a gateway, as the daemon does."""
    if urlsplit(url).hostname == METADATA:
        assert Metadata({}).read("project/project-id") == "a-project"
        with client.session({}) as session:
            session.get(
                f"{url}computeMetadata/v1/", headers={"Metadata-Flavor": "Google"}
            )
        return
    base, _, job = url.partition("/metrics/job/")
    if not job:
        read_once(target.parse(url), environment.load({}).settings)
        return
    environ = {"SIDECAR_PUSHGATEWAY_URL": base, "SIDECAR_PUSHGATEWAY_JOB": job}
    sink = sinks.build("pushgateway", environment.load(environ).settings)
    values = Values(State.SERVING, capacity=1.0)
    sink.publish([Reading(Identity("m", "org/m", "node-1:8081"), 0.0, values)])
