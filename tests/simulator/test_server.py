from __future__ import annotations

import http.client
import random
from collections.abc import Iterator

import pytest

from sidecar.simulator import PRESETS, Engine, OpenLoop, SimulatedWorker, render, steady

DEMO = PRESETS["demo"]


class Clock:
    """A clock that stands until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(clock: Clock) -> Iterator[SimulatedWorker]:
    engine = Engine(DEMO.shape, "demo", started_at=1000.0)
    rng = random.Random(1)
    load = OpenLoop(DEMO.mix, rng, steady(10.0), peak=10.0, start=1000.0)
    with SimulatedWorker(engine, load, clock=clock, epoch=5e8) as worker:
        yield worker


@pytest.fixture
def connection(worker: SimulatedWorker) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=5)
    yield connection
    connection.close()


def get(
    connection: http.client.HTTPConnection, path: str
) -> tuple[http.client.HTTPResponse, str]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response, response.read().decode()


def test_metrics_is_the_whole_page(
    worker: SimulatedWorker, connection: http.client.HTTPConnection, clock: Clock
) -> None:
    clock.now = 1060.0
    for path in ("/metrics", "/metrics?name[]=vllm:num_requests_running"):
        response, body = get(connection, path)

        assert response.status == 200
        content_type = "text/plain; version=1.0.0; charset=utf-8"
        assert response.headers["Content-Type"] == content_type
        assert response.headers["Content-Length"] == str(len(body))
        with worker.locked() as engine:
            assert body == render(engine, epoch=5e8)
    assert "process_start_time_seconds 5.00001e+08\n" in body


def test_metrics_slash_honours_the_filter(
    worker: SimulatedWorker, connection: http.client.HTTPConnection
) -> None:
    names = {"vllm:num_requests_running", "vllm:request_success_total"}
    query = "&".join(f"name[]={name}" for name in sorted(names))
    response, body = get(connection, f"/metrics/?{query}")

    assert response.status == 200
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["Content-Type"] == content_type
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert body == worker.page(names)
    assert get(connection, "/metrics/")[1] == worker.page()
    assert get(connection, "/metrics/?name[]=nothing")[1] == ""


@pytest.mark.parametrize("path", ["/", "/Metrics", "/metrics/x", "/health"])
def test_other_paths_are_not_found(
    connection: http.client.HTTPConnection, path: str
) -> None:
    response, _ = get(connection, path)

    assert response.status == 404


def test_time_passes_between_requests_on_one_connection(
    worker: SimulatedWorker, connection: http.client.HTTPConnection, clock: Clock
) -> None:
    totals = []
    sockets = set()
    for now in (1000.0, 1060.0, 1120.0):
        clock.now = now
        get(connection, "/metrics")
        sockets.add(connection.sock)
        with worker.locked() as engine:
            totals.append(engine.counters.completions)

    assert totals[0] == 0
    assert totals[1] == pytest.approx(600, rel=0.2)
    assert totals[2] == pytest.approx(1200, rel=0.2)
    assert len(sockets) == 1


def test_without_load_the_engine_is_only_advanced(clock: Clock) -> None:
    engine = Engine(DEMO.shape, "demo", started_at=1000.0)
    engine.submit(1001.0, 10, 10)
    worker = SimulatedWorker(engine, clock=clock)
    clock.now = 1010.0

    assert 'finished_reason="stop",model_name="demo"} 1.0' in worker.page()


def test_stop_ends_kept_connections_and_start_takes_the_same_port(
    worker: SimulatedWorker, connection: http.client.HTTPConnection
) -> None:
    get(connection, "/metrics")
    url = worker.url
    worker.stop()
    worker.stop()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        get(connection, "/metrics")
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        get(connection, "/metrics")
    connection.close()

    worker.start()
    worker.start()
    assert worker.url == url
    assert get(connection, "/metrics")[0].status == 200
