"""The image as a container beside a worker, read-only and without any capability."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gcp.metric_service import MetricService
from tests.packaging.image.conftest import StartContainer
from tests.packaging.image.container import Container, run
from tests.packaging.image.tls_worker import tls_worker
from tests.process.commands import sentences
from tests.process.debian import Pushgateway
from tests.process.waiting import until
from tests.process.web import answers, fetch, samples
from tests.unit.makers import page

pytestmark = pytest.mark.packaging

PAGE = "http://127.0.0.1:9846"
MODEL = "demo/llama-tiny"
TAG = "demo_llama_tiny"
SIGNAL = f"num_loaded_models_{TAG}"
MEMORY = "/var/lib/capacity-sidecar"
STATE = f"{MEMORY}/state.json"
NOBODY_IN_PARTICULAR = "--user=1000620000:0"
"""As OpenShift runs it."""


def value(name: str) -> float | None:
    """A number of the sidecar's page; None where it is not there."""
    if not answers(f"{PAGE}/healthz"):
        return None
    found = samples(fetch(f"{PAGE}/metrics"))
    return next((sample.value for sample in found if sample.name == name), None)


def is_measured() -> bool:
    return all((value(name) or 0) > 0 for name in (SIGNAL, "llm_worker_utilization"))


class TestBesideAWorker:
    @pytest.mark.parametrize("options", [(), (NOBODY_IN_PARTICULAR,)])
    def test_finds_it_publishes_and_takes_its_series_away(
        self, options: tuple[str, ...], start: StartContainer, gateway: Pushgateway
    ) -> None:
        sidecar = start(options=options, SIDECAR_PUSHGATEWAY_URL=gateway.url)
        until(is_measured, "the own page has numbers")
        until(lambda: gateway.values(SIGNAL), "the Pushgateway has them")
        (group,) = gateway.groups()
        assert group["tag"] == TAG

        status, seconds = sidecar.end()

        assert status == 0
        assert seconds < 5
        assert gateway.groups() == []

    def test_is_the_user_of_the_image(self, start: StartContainer) -> None:
        sidecar = start()
        status = Path(f"/proc/{sidecar.pid}/status").read_text()
        found = dict(line.split(":\t", 1) for line in status.splitlines())

        assert found["Uid"].split() == ["65532"] * 4
        assert found["Gid"].split() == ["65532"] * 4
        assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == 0
        assert found["NoNewPrivs"] == "1"

    def test_does_with_little_memory(self, start: StartContainer) -> None:
        """As much as the manifests ask for."""
        sidecar = start(options=("--memory=96m",))
        until(is_measured, "the own page has numbers")

        assert sidecar.end()[0] == 0

    def test_check_says_what_it_finds(self, image: str, worker: Container) -> None:
        checked = run(image, "check", beside=worker.name)

        assert "usual ports: http://localhost:8000: a vllm worker" in checked.stdout
        assert (checked.returncode, checked.stderr) == (0, "")

    def test_its_health_is_asked_without_a_shell(self, start: StartContainer) -> None:
        sidecar = start()
        until(sidecar.is_healthy, "it is healthy")
        asked = sidecar.execute("capacity-sidecar", "healthy")
        assert asked.stdout == "http://127.0.0.1:9846/healthz: ok\n"

        sidecar.signal("STOP")

        assert not sidecar.is_healthy()
        sidecar.signal("CONT")
        until(sidecar.is_healthy, "it is healthy again")

    def test_remembers_what_it_learned_on_a_volume(
        self, start: StartContainer, tmp_path: Path
    ) -> None:
        os.chown(tmp_path, 65532, 65532)
        options = (f"--volume={tmp_path}:{MEMORY}",)
        first = start(options=options, SIDECAR_STATE_FILE=STATE)
        until(is_measured, "the own page has numbers")
        assert first.end()[0] == 0

        assert MODEL in (tmp_path / "state.json").read_text("utf-8")
        second = start(options=options, SIDECAR_STATE_FILE=STATE)
        until(is_measured, "the own page has numbers again")
        assert "unusable" not in second.log

    @pytest.mark.parametrize("options", [(), (NOBODY_IN_PARTICULAR,)])
    def test_a_new_volume_belongs_to_the_user(
        self, options: tuple[str, ...], start: StartContainer, tmp_path: Path
    ) -> None:
        """Container engines take over whose the image's folder is."""
        volume = (f"--volume={MEMORY}", *options)
        sidecar = start(options=volume, SIDECAR_STATE_FILE=STATE)
        until(is_measured, "the own page has numbers")
        assert sidecar.end()[0] == 0

        assert sidecar.copy(STATE, tmp_path / "copy") == 0

    def test_writes_to_cloud_monitoring(
        self, start: StartContainer, worker: Container
    ) -> None:
        del worker  # Its network is what counts.
        with MetricService() as service:
            start(
                SIDECAR_SINKS="prometheus,cloud_monitoring",
                SIDECAR_CLOUD_MONITORING_PROJECT="a-project",
                SIDECAR_CLOUD_MONITORING_INTERVAL="5s",
                SIDECAR_CLOUD_MONITORING_ENDPOINT=service.endpoint,
                SIDECAR_CLOUD_MONITORING_INSECURE="true",
            )

            until(lambda: service.accepted, "points are written", 30)

        types = {key.metric_type for key in service.accepted}
        assert f"custom.googleapis.com/{SIGNAL}" in types

    def test_trusts_the_bundle_of_the_image(
        self, image: str, worker: Container, tmp_path: Path
    ) -> None:
        bundle = "/etc/ssl/certs/ca-certificates.crt"
        with tls_worker(page("vllm-0.32.0-idle"), tmp_path) as (port, authority):
            given = {"SIDECAR_TARGETS": f"https://127.0.0.1:{port}"}
            unknown = run(image, "check", environ=given, beside=worker.name)
            mounted = (f"--volume={authority}:{bundle}:ro",)
            known = run(
                *(image, "check"), options=mounted, environ=given, beside=worker.name
            )

        assert "TLS failed (CERTIFICATE_VERIFY_FAILED)" in unknown.stdout
        assert unknown.returncode == 1
        assert "a vllm worker" in known.stdout
        assert known.returncode == 0


class TestAlone:
    def test_a_wrong_setting_ends_it_with_one_sentence(self, image: str) -> None:
        ended = run(image, environ={"SIDECAR_POLL_INTERVAL": "soon"})

        assert ended.returncode == 2
        (sentence,) = sentences(ended.stderr)
        assert "SIDECAR_POLL_INTERVAL='soon' is not a duration" in sentence

    def test_its_page_is_for_other_machines(self, image: str) -> None:
        shown = run(image, "config")

        (line,) = [x for x in shown.stdout.splitlines() if "SIDECAR_LISTEN" in x]
        assert line.split() == ["SIDECAR_LISTEN", "0.0.0.0:9846", "environment"]

    def test_a_state_file_that_cannot_be_written_is_told_by_check(
        self, image: str
    ) -> None:
        """The root file system is read-only, and no volume is mounted."""
        checked = run(image, "check", environ={"SIDECAR_STATE_FILE": STATE})

        assert f"SIDECAR_STATE_FILE={STATE}: {MEMORY} cannot be wr" in checked.stdout

    def test_a_folder_that_is_closed_to_it_is_a_wrong_setting(
        self, image: str, tmp_path: Path
    ) -> None:
        tmp_path.chmod(0o700)
        volume = (f"--volume={tmp_path}:{MEMORY}",)

        ended = run(image, options=volume, environ={"SIDECAR_STATE_FILE": STATE})

        (sentence,) = sentences(ended.stderr)
        assert f"SIDECAR_STATE_FILE='{STATE}' is where this user may not" in sentence
        assert ended.returncode == 2
