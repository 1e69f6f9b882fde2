"""A real ``dynamo.vllm``, found by ``DYN_SYSTEM_PORT``. The tests are one story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real import engines, steps
from tests.real.child import free_port
from tests.real.daemon import Daemon, command
from tests.real.engines import Site
from tests.real.gateway import Gateway
from tests.real.steps import Learned, Note
from tests.real.tiny_model import NAME

pytestmark = pytest.mark.real


class Story:
    """What the tests hand on."""

    def __init__(self, site: Site) -> None:
        self.site = site.with_registry("dynamo-vllm")
        self.front = free_port()
        self.frontend = engines.frontend(
            self.site, "frontend-vllm", self.front, "dynamo-vllm"
        )
        self.engine = engines.dynamo_vllm(
            self.site, "dynamo-vllm", free_port(), self.front
        )
        self.learned = Learned(0.0, 0.0, 0.0)

    def wait(self) -> None:
        """Until the worker answers and the frontend knows it."""
        self.engine.wait_until_serving()
        self.frontend.wait_for(f"http://127.0.0.1:{self.front}/v1/models", NAME, 30)

    def stop(self) -> None:
        """End both."""
        self.engine.child.stop()
        self.frontend.stop()


@pytest.fixture(scope="module")
def story(dynamo_vllm_site: Site) -> Iterator[Story]:
    """With a worker that is still starting."""
    story = Story(dynamo_vllm_site)
    try:
        yield story
    finally:
        story.stop()


@pytest.fixture(scope="module")
def daemon(story: Story, gateway: Gateway) -> Iterator[Daemon]:
    """The sidecar, with the variable that the worker has too."""
    log = story.site.work / "sidecar-dynamo-vllm.log"
    port = str(story.engine.port)
    running = Daemon(log, gateway.url, DYN_SYSTEM_PORT=port)
    try:
        yield running
    finally:
        running.close()


def test_it_waits_for_the_start(story: Story, daemon: Daemon, note: Note) -> None:
    daemon.wait_state(story.engine.port, "unreachable")
    story.wait()
    note(f"dynamo.vllm: serves after {story.engine.started:.1f} s")
    daemon.wait_state(story.engine.port, "idle")
    assert daemon.states(story.engine.port)[-3:] == ["unreachable", "baseline", "idle"]


def test_check_takes_it_from_the_variable(story: Story, gateway: Gateway) -> None:
    port = story.engine.port
    found = command(
        "check", DYN_SYSTEM_PORT=str(port), SIDECAR_PUSHGATEWAY_URL=gateway.url
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert (
        f"taken  DYN_SYSTEM_PORT: http://localhost:{port}: a dynamo worker, "
        "model tiny-llama" in found.stdout
    )


def test_light_load(story: Story, daemon: Daemon) -> None:
    before = steps.light_load(daemon, story.engine)
    story.learned = Learned(before, 0.0, 0.0)
    steps.was_light(daemon, story.engine)


def test_the_estimate_comes_near_the_saturated_rate(
    story: Story, daemon: Daemon, note: Note
) -> None:
    story.learned = steps.full_load(daemon, story.engine, story.learned.before)
    steps.was_near(story.learned, "dynamo.vllm", note)


def test_idle_again(story: Story, daemon: Daemon, gateway: Gateway) -> None:
    steps.no_load(daemon, story.engine)
    steps.is_pushed(daemon, gateway, story.engine)


def test_killed_engine(
    story: Story, daemon: Daemon, gateway: Gateway, note: Note
) -> None:
    (core,) = story.engine.child.members("VLLM::EngineCore")
    steps.killed(daemon, gateway, story.engine, core, "dynamo.vllm", note)
    steps.numbers_are_sane(daemon, story.learned, story.engine.port)


def test_sigterm_while_the_worker_is_away(
    daemon: Daemon, gateway: Gateway, note: Note
) -> None:
    steps.ends_cleanly(daemon, gateway, "dynamo.vllm", note)
