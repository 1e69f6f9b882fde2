"""The image built once; a worker in a network of its own, with the test inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.packaging.image import engine
from tests.packaging.image.container import Container
from tests.packaging.image.network import network_of
from tests.process.debian import Pushgateway
from tests.process.waiting import until
from tests.process.web import answers

WORKER = "http://127.0.0.1:8000"
FAST = {"SIDECAR_POLL_INTERVAL": "500ms"}


class StartContainer(Protocol):
    """Starts the image as `Container` does, beside the worker."""

    def __call__(
        self, *command: str, options: tuple[str, ...] = ..., **settings: str
    ) -> Container: ...


@pytest.fixture(scope="session", params=["base", "gcp"])
def either_image(request: pytest.FixtureRequest) -> str:
    """The image, without Google's client and with it."""
    engine.needed()
    return engine.image(request.param)


@pytest.fixture(scope="session")
def image() -> str:
    """The image as it is by default."""
    engine.needed()
    return engine.image("gcp")


@pytest.fixture
def worker(image: str) -> Iterator[Container]:
    """A simulated worker; sockets that the test opens are in its network."""
    worker = Container(image, "simulate")
    try:
        with network_of(worker.pid):
            until(lambda: answers(f"{WORKER}/metrics"), "the worker serves")
            yield worker
    finally:
        worker.remove()


@pytest.fixture
def start(image: str, worker: Container) -> Iterator[StartContainer]:
    """Starts containers beside the worker."""
    with ExitStack() as stack:

        def start(
            *command: str, options: tuple[str, ...] = (), **settings: str
        ) -> Container:
            environ = {**FAST, **settings}
            container = Container(
                image, *command, options=options, environ=environ, beside=worker.name
            )
            stack.callback(container.remove)
            return container

        yield start


@pytest.fixture
def gateway(worker: Container, tmp_path: Path) -> Iterator[Pushgateway]:
    """A Pushgateway beside the worker."""
    del worker  # Its network is what counts.
    gateway = Pushgateway(9091, tmp_path)
    gateway.start()
    yield gateway
    gateway.kill()
