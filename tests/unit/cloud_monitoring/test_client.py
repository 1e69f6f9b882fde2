from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import google.auth.transport.grpc
import grpc
import pytest
from google.auth import compute_engine
from google.auth.exceptions import DefaultCredentialsError
from google.auth.transport.requests import Request

from sidecar.sink_settings import CloudMonitoringSettings
from sidecar.sinks.cloud_monitoring.client import Client, session
from tests.gcp.metadata_server import MetadataServer
from tests.gcp.metadata_values import gce


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that channels with credentials were opened to."""
    addresses: list[str] = []

    def open_channel(_: object, __: object, address: str, **___: Any) -> grpc.Channel:
        addresses.append(address)
        return grpc.insecure_channel("127.0.0.1:9")

    monkeypatch.setattr(
        google.auth.transport.grpc, "secure_authorized_channel", open_channel
    )
    return addresses


def connect(credentials: Any, environ: Mapping[str, str], **settings: Any) -> Client:
    client = Client(
        CloudMonitoringSettings(**settings),
        environ,
        lambda **_: (credentials, "the-project"),
    )
    client.connected()
    client.close()
    return client


class TestUniverse:
    def test_the_usual_one(self, opened: list[str]) -> None:
        connect(SimpleNamespace(universe_domain="googleapis.com"), {})

        assert opened == ["monitoring.googleapis.com:443"]

    def test_that_of_the_credentials(self, opened: list[str]) -> None:
        connect(SimpleNamespace(universe_domain="s3nsapis.fr"), {})

        assert opened == ["monitoring.s3nsapis.fr:443"]

    def test_that_of_the_environment(self, opened: list[str]) -> None:
        environ = {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "example.org"}
        connect(SimpleNamespace(universe_domain="googleapis.com"), environ)

        assert opened == ["monitoring.example.org:443"]

    @pytest.mark.parametrize("universe", ["s3nsapis.fr", None])
    def test_that_of_the_machine(self, opened: list[str], universe: str | None) -> None:
        values = gce()
        del values["universe/universe-domain"]
        if universe:
            values["universe/universe-domain"] = universe
        with MetadataServer(values) as server:
            environ = {"GCE_METADATA_HOST": server.host}
            connect(compute_engine.Credentials(), environ)  # type: ignore[no-untyped-call]

        assert opened == [f"monitoring.{universe or 'googleapis.com'}:443"]

    def test_an_endpoint_wins(self, opened: list[str]) -> None:
        connect(
            SimpleNamespace(universe_domain="s3nsapis.fr"),
            {"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "example.org"},
            endpoint="private.example.org:443",
        )

        assert opened == ["private.example.org:443"]


class TestCredentials:
    def test_project_and_account(self, opened: list[str]) -> None:
        credentials = SimpleNamespace(
            universe_domain="googleapis.com", service_account_email="w@p.iam"
        )
        client = connect(credentials, {})

        assert (client.project, client.account) == ("the-project", "w@p.iam")
        assert len(opened) == 1

    @pytest.mark.parametrize(
        "fault", [PermissionError("no"), ValueError("?"), AttributeError("get")]
    )
    def test_whatever_is_wrong_with_their_file(self, fault: Exception) -> None:
        """The library finds out by accident that a file holds something else."""

        def find(**_: object) -> Any:
            raise fault

        client = Client(CloudMonitoringSettings(), {}, find)
        with pytest.raises(DefaultCredentialsError, match=type(fault).__name__):
            client.connected()

    def test_a_token_never_comes_through_a_proxy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Here the proxy is a port that refuses connections."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with (
            MetadataServer(gce()) as server,
            session({"GCE_METADATA_IP": server.host}) as tokens,
        ):
            answer = Request(tokens)(
                f"http://{server.host}/computeMetadata/v1/project/project-id",
                headers={"Metadata-Flavor": "Google"},
            )

        assert answer.data == b"a-project"
