from __future__ import annotations

import json
import re

import pytest

from sidecar.commands.config import table
from sidecar.environment import variables
from sidecar.simulator import SimulatedWorker
from tests.process.commands import finish, run, run_all, sentences, start
from tests.process.conftest import Ports
from tests.process.debian import Pushgateway
from tests.process.waiting import until
from tests.process.web import fetch, samples
from tests.process.workers import MODEL, SIGNAL, TAG

pytestmark = pytest.mark.process

GROUP = {"job": "capacity-sidecar", "tag": TAG, "worker": "gpu-1"}


def pushed(gateway: Pushgateway) -> dict[str, float]:
    """The group's numbers, without those that the gateway adds."""
    found = gateway.samples(**GROUP)
    return {s.name: s.value for s in found if not s.name.startswith("push_")}


def settings(worker: SimulatedWorker, gateway: Pushgateway) -> dict[str, str]:
    return {
        "SIDECAR_TARGETS": worker.url,
        "SIDECAR_WORKER": "gpu-1",
        "SIDECAR_POLL_INTERVAL": "500ms",
        "SIDECAR_PUSHGATEWAY_URL": gateway.url,
        "SIDECAR_LOG_LEVEL": "error",
    }


def test_check_says_what_is_in_the_way(
    worker: SimulatedWorker, gateway: Pushgateway, free_port: Ports
) -> None:
    sound = settings(worker, gateway)
    nothing = f"127.0.0.1:{free_port()}"
    no_gateway = {**sound, "SIDECAR_PUSHGATEWAY_URL": f"http://{nothing}"}
    no_worker = {**sound, "SIDECAR_TARGETS": nothing}
    one_of_two = {**sound, "SIDECAR_TARGETS": f"{worker.url},{nothing}"}
    variants = (sound, no_gateway, no_worker, one_of_two)

    checked = [finish(p) for p in [start(["check"], each) for each in variants]]

    assert [each.returncode for each in checked] == [0, 1, 1, 1]
    assert [each.stderr for each in checked] == ["", "", "", ""]
    out = [each.stdout for each in checked]
    assert (
        f"taken  SIDECAR_TARGETS: {worker.url}: a vllm worker, model {MODEL}" in out[0]
    )
    assert f"ok    pushgateway: {gateway.url} is ready" in out[0]
    assert f'{SIGNAL}{{tag="{TAG}", model_name="{MODEL}", worker="gpu-1"}}' in out[0]
    assert f"FAIL  pushgateway: http://{nothing} does not answer" in out[1]
    assert "refuses connections" in out[2]
    assert f"nothing for http://{nothing} until it answers" in out[3]
    assert gateway.groups() == []


def test_once_shows_exactly_what_it_publishes(
    worker: SimulatedWorker, gateway: Pushgateway
) -> None:
    dry = run("once", "--dry-run", **settings(worker, gateway))
    assert (dry.returncode, dry.stderr) == (0, "")
    assert SIGNAL in dry.stdout
    assert gateway.groups() == []

    as_json = run("once", "--output", "json", **settings(worker, gateway))
    assert (as_json.returncode, as_json.stderr) == (0, "")
    (line,) = as_json.stdout.splitlines()
    reading = json.loads(line)
    assert reading["gauges"] == pushed(gateway)
    assert reading["gauges"][SIGNAL] > 1
    assert reading["state"] == "serving"

    as_text = run("once", **settings(worker, gateway))
    assert (as_text.returncode, as_text.stderr) == (0, "")
    shown = dict(re.findall(r"^  (\w+) +([\d.e+-]+)$", as_text.stdout, re.MULTILINE))
    assert shown == {name: f"{value:.6g}" for name, value in pushed(gateway).items()}
    assert f"gpu-1: {MODEL}, serving" in as_text.stdout


def test_once_fails_where_nothing_could_be_read_or_sent(
    worker: SimulatedWorker, stopped_gateway: Pushgateway
) -> None:
    gateway_away = settings(worker, stopped_gateway)
    worker_away = {**gateway_away, "SIDECAR_TARGETS": stopped_gateway.address}
    started = [start(["once"], each) for each in (gateway_away, worker_away)]

    unsent, unread = (finish(process) for process in started)

    (said,) = sentences(unsent.stderr)
    assert f"pushgateway: {stopped_gateway.url} does not answer" in said
    assert SIGNAL in unsent.stdout
    assert unsent.returncode == 1
    (said,) = sentences(unread.stderr)
    assert "refuses connections" in said
    assert (unread.returncode, unread.stdout) == (1, "")


def test_config_shows_every_setting_and_its_origin() -> None:
    text, as_json, markdown = run_all(
        ["config"],
        ["config", "--output", "json"],
        ["config", "--output", "markdown"],
        SIDECAR_POLL_INTERVAL=" '500ms' ",
        SIDECAR_TAG="",
        SIDECAR_BEARER_TOKEN_FILE="/proc/version",
    )

    assert [p.returncode for p in (text, as_json, markdown)] == [0, 0, 0]
    assert [p.stderr for p in (text, as_json, markdown)] == ["", "", ""]
    names = [variable.name for variable in variables()]
    assert [line.split()[0] for line in text.stdout.splitlines()] == names
    found = json.loads(as_json.stdout)
    assert list(found) == names
    interval = {"value": 0.5, "origin": "SIDECAR_POLL_INTERVAL"}
    assert found["SIDECAR_POLL_INTERVAL"] == interval
    assert found["SIDECAR_TAG"] == {"value": None, "origin": "default"}
    token = {"value": "***", "origin": "SIDECAR_BEARER_TOKEN_FILE"}
    assert found["SIDECAR_BEARER_TOKEN"] == token
    assert markdown.stdout == f"{table()}\n"


def test_demo_estimates_and_serves_its_page(free_port: Ports) -> None:
    address = f"127.0.0.1:{free_port()}"
    # The demo's settings are its own.
    process = start(
        ["demo", "--seconds", "6", "--listen", address], {"SIDECAR_ENABLED": "maybe"}
    )
    name = "num_loaded_models_demo_llama_tiny"

    def estimate() -> list[float]:
        if process.poll() is not None:
            return [0.0]
        try:
            page = fetch(f"http://{address}/metrics")
        except OSError:
            return []
        return [sample.value for sample in samples(page) if sample.name == name]

    (value,) = until(estimate, "the demo's page has an estimate")
    ended = finish(process)

    assert value > 1
    assert sentences(ended.stderr) == []
    assert ended.returncode == 0
    assert (
        f"The sidecar's page: http://{address}/ (metrics at /metrics)" in ended.stdout
    )
    assert re.search(r"serving .* \d+\.\d \(\d+\.\d to \d+\.\d\) ", ended.stdout)


def test_a_simulated_worker_is_one_to_the_sidecar(free_port: Ports) -> None:
    port = free_port()
    process = start(["simulate", "--port", str(port)], {})
    assert process.stdout
    said = process.stdout.readline()

    found = run("check", SIDECAR_TARGETS=f"127.0.0.1:{port}")
    taken = run("simulate", "--port", str(port))
    process.terminate()
    ended = finish(process)

    assert f"http://127.0.0.1:{port}/metrics" in said
    assert "a vllm worker, model demo/llama-tiny" in found.stdout
    assert found.returncode == 0
    assert f"--port {port} cannot be used" in sentences(taken.stderr)[-1]
    assert taken.returncode == 2
    assert (ended.returncode, ended.stderr) == (0, "")


def test_wrong_arguments() -> None:
    wrong = {
        "--seconds 'ever'": ["demo", "--seconds", "ever"],
        "--port '0'": ["simulate", "--port", "0"],
        "'host'": ["record", "host", "--output", "x"],
        "--output": ["config", "--output", "yaml"],
        "serve": ["serve"],
    }

    for named, refused in zip(wrong, run_all(*wrong.values()), strict=True):
        assert named in sentences(refused.stderr)[-1]
        assert (refused.returncode, refused.stdout) == (2, "")
