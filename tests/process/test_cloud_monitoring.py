"""The daemon on a machine of Google's: metadata server, credentials, TLS, gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.simulator import SimulatedWorker
from tests.gcp.certificate import certified
from tests.gcp.metadata_server import MetadataServer
from tests.gcp.metadata_values import gce
from tests.gcp.metric_service import MetricService
from tests.process.commands import run
from tests.process.conftest import StartDaemon
from tests.process.daemon import Daemon
from tests.process.waiting import until
from tests.process.workers import SIGNAL

pytestmark = pytest.mark.process


@pytest.fixture
def machine() -> Iterator[MetadataServer]:
    """A machine's metadata server that refuses connections until it is started."""
    server = MetadataServer(gce())
    yield server
    server.close()


@pytest.fixture
def authorities(tmp_path: Path) -> Path:
    return tmp_path / "authorities.pem"


@pytest.fixture
def service(authorities: Path) -> Iterator[MetricService]:
    with MetricService(tls=certified(authorities)) as service:
        yield service


def on(
    machine: MetadataServer, service: MetricService, authorities: Path, **more: str
) -> dict[str, str]:
    """The environment of a process on that machine."""
    return {
        "GCE_METADATA_HOST": machine.host,
        "GCE_METADATA_IP": machine.host,
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authorities),
        "SIDECAR_SINKS": "prometheus,cloud_monitoring",
        "SIDECAR_CLOUD_MONITORING_ENDPOINT": service.endpoint,
        "SIDECAR_CLOUD_MONITORING_INTERVAL": "5s",
        "SIDECAR_CLOUD_MONITORING_TIMEOUT": "2s",
        **more,
    }


def said(daemon: Daemon) -> list[str]:
    return daemon.logged("cloud_monitoring: cannot publish")


def test_all_the_way_with_everything_late(
    worker: SimulatedWorker,
    machine: MetadataServer,
    service: MetricService,
    authorities: Path,
    start_daemon: StartDaemon,
) -> None:
    """No metadata server at first, and later no service for a while."""
    daemon = start_daemon(
        on(machine, service, authorities), SIDECAR_TARGETS=worker.url
    ).wait_for_page()
    daemon.wait_for(
        "sidecar_publishes_total", sink="cloud_monitoring", outcome="failed"
    )
    assert "does not answer" in said(daemon)[0]
    assert machine.host in said(daemon)[0]
    assert daemon.wait_for(SIGNAL) > 0

    machine.start()
    until(lambda: service.accepted, "the first points", 30)
    call = service.calls[0]
    assert call.metadata["authorization"] == f"Bearer {machine.tokens[0]}"
    assert service.requests[0].name == "projects/a-project"
    types = {key.metric_type for key in service.accepted}
    assert types == {
        f"custom.googleapis.com/{SIGNAL}",
        "custom.googleapis.com/llm_worker_capacity",
        "custom.googleapis.com/llm_worker_utilization",
    }
    assert {(k.resource_type, k.resource_labels) for k in service.accepted} == {
        (
            "gce_instance",
            (("instance_id", "4520031799277581759"), ("zone", "us-central1-a")),
        )
    }

    service.stop()
    until(lambda: len(said(daemon)) == 2, "the outage is said", 30)
    assert "cannot be reached" in said(daemon)[1]
    points = sum(map(len, service.accepted.values()))
    service.start()
    until(lambda: sum(map(len, service.accepted.values())) > points, "new points", 30)

    status, seconds = daemon.end()
    assert status == 0
    assert seconds < 5
    assert daemon.out.read_text() == ""


def test_check_says_what_it_found(
    machine: MetadataServer, service: MetricService, authorities: Path
) -> None:
    machine.start()
    done = run("check", **on(machine, service, authorities))

    assert (
        "ok    cloud_monitoring: project a-project, gce_instance "
        "(instance_id=4520031799277581759, zone=us-central1-a): signal, capacity, "
        "utilization below custom.googleapis.com"
    ) in done.stdout


def test_check_without_anything_of_google_s(authorities: Path) -> None:
    """It says so, in seconds, with no traceback and no line of a library's."""
    done = run(
        "check",
        SIDECAR_SINKS="cloud_monitoring",
        SIDECAR_CLOUD_MONITORING_PROJECT="a-project",
        NO_GCE_CHECK="true",
        HOME=str(authorities.parent),
    )

    assert "FAIL  cloud_monitoring: no credentials" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 1
