"""Dynamo's own engine simulator behind its real frontend. The tests are one story."""

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
        self.site = site.with_registry("mocker")
        self.front = free_port()
        self.frontend = engines.frontend(self.site, "frontend", self.front, "dynamo")
        self.engine = engines.mocker(self.site, "mocker", free_port(), self.front)
        self.learned = Learned(0.0, 0.0, 0.0)

    def wait(self) -> None:
        """Until the worker answers and the frontend knows it."""
        self.engine.wait_until_serving("dynamo_component_uptime_seconds")
        self.frontend.wait_for(f"http://127.0.0.1:{self.front}/v1/models", NAME, 30)

    def stop(self) -> None:
        """End both."""
        self.engine.child.stop()
        self.frontend.stop()


@pytest.fixture(scope="module")
def story(dynamo_site: Site) -> Iterator[Story]:
    """With a mocker and a frontend running."""
    story = Story(dynamo_site)
    try:
        story.wait()
        yield story
    finally:
        story.stop()


@pytest.fixture(scope="module")
def daemon(story: Story, gateway: Gateway) -> Iterator[Daemon]:
    """The sidecar beside it, told nothing about it."""
    running = Daemon(story.site.work / "sidecar-mocker.log", gateway.url)
    try:
        yield running
    finally:
        running.close()


def found_by(story: Story) -> str:
    """How check names the mocker."""
    url = f"http://localhost:{story.engine.port}"
    return f"{url} (dynamo.mocker, process {story.engine.child.pid})"


def test_check_says_why_a_worker_without_requests_is_not_taken(story: Story) -> None:
    found = command("check")
    assert found.returncode == 1
    assert (
        f"  -    process table: {found_by(story)}: a Dynamo worker whose engine has "
        "exported nothing yet: it is still starting, or a mocker before its first "
        "request" in found.stdout
    )


def test_the_frontend_is_refused_with_the_reason(story: Story) -> None:
    found = command("check", SIDECAR_TARGETS=f"127.0.0.1:{story.front}")
    assert found.returncode == 1
    assert (
        "this is a Dynamo frontend: its numbers cover all workers of the model, so "
        "every worker beside it would count them again. Set DYN_SYSTEM_PORT on the "
        "worker (8081, say) and SIDECAR_METRICS_PORT to the same port" in found.stdout
    )


def test_light_load(story: Story, daemon: Daemon) -> None:
    before = steps.light_load(daemon, story.engine)
    story.learned = Learned(before, 0.0, 0.0)
    said = daemon.at(story.engine.port)
    assert said["found"] == f"dynamo.mocker, process {story.engine.child.pid}"
    assert said["engine"] == "dynamo"
    steps.was_light(daemon, story.engine)


def test_check_takes_it_from_the_process_table(story: Story, gateway: Gateway) -> None:
    found = command("check", SIDECAR_PUSHGATEWAY_URL=gateway.url)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"taken  process table: {found_by(story)}: a dynamo worker" in found.stdout


def test_the_estimate_comes_near_the_saturated_rate(
    story: Story, daemon: Daemon, note: Note
) -> None:
    story.learned = steps.full_load(daemon, story.engine, story.learned.before)
    steps.was_near(story.learned, "Dynamo's mocker", note)


def test_idle_again(story: Story, daemon: Daemon, gateway: Gateway) -> None:
    steps.no_load(daemon, story.engine)
    steps.is_pushed(daemon, gateway, story.engine)


def test_killed_worker_comes_back_at_another_port(
    story: Story, daemon: Daemon, gateway: Gateway, note: Note
) -> None:
    old = story.engine
    steps.killed(daemon, gateway, old, old.child.pid, "Dynamo's mocker", note)
    story.engine = engines.mocker(story.site, "mocker-again", free_port(), story.front)
    story.wait()
    steps.found_again(daemon, gateway, old, story.engine, story.learned)
    ports = old.port, story.engine.port
    steps.numbers_are_sane(daemon, story.learned, *ports)
    changes = " -> ".join(daemon.states(*ports))
    note(f"Dynamo's mocker: states, killed and at another port in between: {changes}")


def test_sigterm(daemon: Daemon, gateway: Gateway, note: Note) -> None:
    steps.ends_cleanly(daemon, gateway, "Dynamo's mocker", note)
