"""The metadata server, asked plainly and by google-auth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import google.auth.exceptions
import pytest
import requests
from google.auth import compute_engine
from google.auth.compute_engine import _metadata
from google.auth.transport.requests import Request

from tests.gcp.metadata_server import TOKEN, UNBOUND, MetadataServer
from tests.gcp.metadata_values import (
    ACCOUNTS,
    CLOUD_PLATFORM,
    MONITORING_WRITE,
    gce,
    gke,
)

FLAVOR = {"Metadata-Flavor": "Google"}
EMAIL = "worker@a-project.iam.gserviceaccount.com"


@pytest.fixture
def machine() -> Iterator[MetadataServer]:
    """A virtual machine's server."""
    with MetadataServer(gce(group="a-group")) as server:
        yield server


def ask(
    server: MetadataServer, path: str, headers: dict[str, str] | None = None
) -> requests.Response:
    """Get a path under the root, with the header unless others are given."""
    return requests.get(
        f"http://{server.host}/computeMetadata/v1/{path}",
        headers=FLAVOR if headers is None else headers,
        timeout=5,
        allow_redirects=False,
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("project/project-id", "a-project"),
        ("project/numeric-project-id", "123456789012"),
        ("instance/id", "4520031799277581759"),
        ("instance/zone", "projects/123456789012/zones/us-central1-a"),
        ("instance/name", "gpu-worker-1"),
        ("instance/hostname", "gpu-worker-1.us-central1-a.c.a-project.internal"),
        (
            "instance/attributes/created-by",
            "projects/123456789012/zones/us-central1-a/instanceGroupManagers/a-group",
        ),
        ("universe/universe-domain", "googleapis.com"),
        ("instance/service-accounts/", f"default/\n{EMAIL}/\n"),
        ("instance/service-accounts/default/email", EMAIL),
        ("instance/service-accounts/default/scopes", CLOUD_PLATFORM),
        (f"instance/service-accounts/{EMAIL}/aliases", "default"),
        ("instance/attributes/", "created-by\n"),
        ("", "instance/\nproject/\nuniverse/\n"),
    ],
)
def test_a_machine_has_its_values_as_text(
    machine: MetadataServer, path: str, value: str
) -> None:
    answer = ask(machine, path)

    assert (answer.status_code, answer.text) == (200, value)
    assert answer.headers["Metadata-Flavor"] == "Google"
    assert answer.headers["Content-Type"] == "application/text"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance/attributes/cluster-name", "a-cluster"),
        ("instance/attributes/cluster-location", "us-central1"),
        ("instance/service-accounts/default/email", "a-project.svc.id.goog"),
    ],
)
def test_a_pod_has_its_cluster(path: str, value: str) -> None:
    with MetadataServer(gke()) as server:
        assert ask(server, path).text == value
        assert ask(server, "instance/attributes/cluster-uid").ok
        assert ask(server, "instance/name").status_code == 404


def test_a_machine_may_have_other_scopes() -> None:
    scopes = [MONITORING_WRITE, "https://www.googleapis.com/auth/logging.write"]
    with MetadataServer(gce(scopes=scopes)) as server:
        assert ask(server, f"{ACCOUNTS}/default/scopes").text == "\n".join(scopes)
        account = ask(server, f"{ACCOUNTS}/default/?recursive=true").json()
        assert account["scopes"] == scopes


def test_a_new_cluster_serves_the_name_of_the_node() -> None:
    with MetadataServer(gke(name="a-node")) as server:
        assert ask(server, "instance/name").text == "a-node"


@pytest.mark.parametrize(
    "headers", [{}, {"Metadata-Flavor": "Other"}, {**FLAVOR, "X-Forwarded-For": "::1"}]
)
def test_without_the_header_or_through_a_proxy_it_is_forbidden(
    machine: MetadataServer, headers: dict[str, str]
) -> None:
    answer = ask(machine, "project/project-id", headers)

    assert answer.status_code == 403
    assert answer.headers["Metadata-Flavor"] == "Google"


def test_the_root_of_the_host_answers_a_ping(machine: MetadataServer) -> None:
    answer = requests.get(f"http://{machine.host}/", timeout=5)

    assert answer.status_code == 200
    assert answer.headers["Metadata-Flavor"] == "Google"


@pytest.mark.parametrize(
    "path", ["instance/attributes/cluster-name", "instance/nothing/", "v2"]
)
def test_what_is_not_there_is_not_found(machine: MetadataServer, path: str) -> None:
    assert ask(machine, path).status_code == 404


def test_there_is_one_version(machine: MetadataServer) -> None:
    url = f"http://{machine.host}/computeMetadata/v2/instance/id"

    assert requests.get(url, headers=FLAVOR, timeout=5).status_code == 404


def test_a_directory_without_its_slash_is_elsewhere(machine: MetadataServer) -> None:
    answer = ask(machine, "instance/attributes")

    assert answer.status_code == 301
    assert answer.headers["Location"].endswith("/v1/instance/attributes/")


def test_everything_comes_as_json() -> None:
    with MetadataServer(gce(group="a-group", attributes={"my-key": "1"})) as machine:
        answer = ask(machine, "?recursive=true&alt=json")

    assert answer.headers["Content-Type"] == "application/json"
    everything = answer.json()
    assert everything["project"] == {
        "numericProjectId": 123456789012,
        "projectId": "a-project",
    }
    instance = everything["instance"]
    assert instance["id"] == 4520031799277581759
    assert instance["machineType"].endswith("/g2-standard-8")
    assert set(instance["attributes"]) == {"created-by", "my-key"}
    assert instance["serviceAccounts"]["default"] == {
        "aliases": ["default"],
        "email": EMAIL,
        "scopes": [CLOUD_PLATFORM],
    }


def test_one_value_comes_as_json(machine: MetadataServer) -> None:
    assert ask(machine, "instance/id?alt=json").json() == 4520031799277581759
    assert ask(machine, "instance/name?alt=json").json() == "gpu-worker-1"


def test_every_request_is_logged(machine: MetadataServer) -> None:
    ask(machine, "instance/?recursive=true")
    ask(machine, "instance/id", {})

    root = "/computeMetadata/v1/"
    assert machine.requests == [f"{root}instance/?recursive=true", f"{root}instance/id"]


def test_the_first_connections_are_closed() -> None:
    with MetadataServer(gce(), refuse_first=2) as server:
        for _ in range(2):
            with pytest.raises(requests.ConnectionError):
                ask(server, "instance/id")

        assert ask(server, "instance/id").ok
        assert len(server.requests) == 3


def test_the_first_requests_get_a_status() -> None:
    with MetadataServer(gce(), refuse_first=1, refuse_with=503) as server:
        assert ask(server, "instance/id").status_code == 503
        assert ask(server, "instance/id").ok


def test_it_starts_late_stops_and_starts_again() -> None:
    server = MetadataServer(gce())
    try:
        for _ in range(2):
            with pytest.raises(requests.ConnectionError):
                ask(server, "instance/id")
            server.start()
            assert ask(server, "instance/id").ok
            server.stop()
    finally:
        server.close()


@pytest.mark.parametrize("account", ["default", EMAIL])
def test_tokens_differ_and_say_how_long_they_last(
    machine: MetadataServer, account: str
) -> None:
    machine.token_lifetime = 300
    path = f"{ACCOUNTS}/{account}/token?scopes={CLOUD_PLATFORM}"

    first, second = ask(machine, path).json(), ask(machine, path).json()

    assert first["expires_in"] == 300
    assert [first["access_token"], second["access_token"]] == machine.tokens
    assert len(set(machine.tokens)) == 2


def test_an_unknown_account_has_no_token(machine: MetadataServer) -> None:
    assert ask(machine, f"{ACCOUNTS}/other/token").status_code == 404


def test_a_path_fails_with_all_below_it_until_it_recovers(
    machine: MetadataServer,
) -> None:
    machine.fail(ACCOUNTS)

    answer = ask(machine, f"{ACCOUNTS}/default/?recursive=true")
    assert (answer.status_code, answer.text) == (404, "Not Found\n")
    assert ask(machine, f"{ACCOUNTS}/").status_code == 404
    assert ask(machine, TOKEN).status_code == 404
    assert ask(machine, "instance/id").ok

    machine.recover()
    assert ask(machine, TOKEN).ok


@pytest.fixture
def credentials(
    machine: MetadataServer, monkeypatch: pytest.MonkeyPatch
) -> compute_engine.Credentials:
    """Google's, of this process: the library looked at the environment long ago."""
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", machine.host)
    return compute_engine.Credentials()  # type: ignore[no-untyped-call]


def test_credentials_are_refreshed_again_and_again(
    machine: MetadataServer, credentials: compute_engine.Credentials
) -> None:
    for count in (1, 2):
        credentials.refresh(Request())  # type: ignore[no-untyped-call]

        assert credentials.token == machine.tokens[-1]
        assert credentials.service_account_email == EMAIL
        assert len(machine.tokens) == count


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [(TOKEN, 404, "Not Found\n"), (TOKEN, 403, UNBOUND), (ACCOUNTS, 404, "")],
)
def test_credentials_that_are_not_bound_cannot_be_refreshed(
    machine: MetadataServer,
    credentials: compute_engine.Credentials,
    path: str,
    status: int,
    text: str,
) -> None:
    machine.fail(path, status, text)
    with pytest.raises(google.auth.exceptions.RefreshError, match=str(status)):
        credentials.refresh(Request())  # type: ignore[no-untyped-call]

    machine.recover()
    credentials.refresh(Request())  # type: ignore[no-untyped-call]
    assert credentials.token == machine.tokens[-1]


SCRIPT = """
import json, google.auth
from google.auth.transport.requests import Request

found, project = google.auth.default()
found.refresh(Request())
kind = type(found)
print(json.dumps([kind.__module__, project, found.token, found.universe_domain]))
"""


def test_a_new_process_finds_it_by_the_environment(
    machine: MetadataServer, tmp_path: Path
) -> None:
    environ = {
        "GCE_METADATA_HOST": machine.host,
        "GCE_METADATA_IP": machine.host,
        "NO_PROXY": "127.0.0.1",
        "HOME": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        "google.auth.compute_engine.credentials",
        "a-project",
        machine.tokens[-1],
        "googleapis.com",
    ]
