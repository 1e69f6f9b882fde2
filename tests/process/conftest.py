"""Real parts: each is started where a test asks for it, and killed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import pytest

from sidecar.simulator import SimulatedWorker
from tests.process.daemon import Daemon
from tests.process.debian import Pushgateway
from tests.process.sockets import Silence, reserved_port
from tests.process.workers import fast_worker

Ports = Callable[[], int]


class StartDaemon(Protocol):
    """Starts a daemon as `Daemon` does; settings by their full names."""

    def __call__(
        self,
        given: Mapping[str, str] = ...,
        *,
        prefix: Sequence[str] = (),
        stdout: int | None = None,
        stderr: int | None = None,
        **settings: str,
    ) -> Daemon: ...


@pytest.fixture
def free_port() -> Iterator[Ports]:
    """Ports that stay ours until the test ends."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(reserved_port())


@pytest.fixture
def worker() -> Iterator[SimulatedWorker]:
    """A worker under load."""
    with fast_worker() as worker:
        yield worker


@pytest.fixture
def silence() -> Iterator[Silence]:
    """A server that never answers."""
    with Silence() as silence:
        yield silence


@pytest.fixture
def stopped_gateway(tmp_path: Path, free_port: Ports) -> Iterator[Pushgateway]:
    """A Pushgateway that the test starts when it likes."""
    gateway = Pushgateway(free_port(), tmp_path)
    yield gateway
    gateway.kill()


@pytest.fixture
def gateway(stopped_gateway: Pushgateway) -> Pushgateway:
    """A Pushgateway that answers."""
    stopped_gateway.start()
    return stopped_gateway


@pytest.fixture
def start_daemon(tmp_path: Path, free_port: Ports) -> Iterator[StartDaemon]:
    """Starts daemons, each with a page on a port of its own."""
    with ExitStack() as stack:

        def start(
            given: Mapping[str, str] = MappingProxyType({}),
            *,
            prefix: Sequence[str] = (),
            stdout: int | None = None,
            stderr: int | None = None,
            **settings: str,
        ) -> Daemon:
            daemon = Daemon(
                tmp_path,
                free_port(),
                {**given, **settings},
                prefix=prefix,
                stdout=stdout,
                stderr=stderr,
            )
            stack.callback(daemon.close)
            return daemon

        yield start
