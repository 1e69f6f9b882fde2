"""A real ``vllm serve``, from its first page to its end. The tests are one story."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from sidecar import environment, target
from sidecar.worker import scraper
from tests.real import engines, steps
from tests.real.child import free_port
from tests.real.daemon import Daemon, command
from tests.real.engines import Site
from tests.real.gateway import Gateway
from tests.real.steps import Learned, Note

pytestmark = pytest.mark.real

PORT = 8100
FILTERED = re.compile(r'"GET /metrics/\?name%5B%5D=\S+ HTTP/1.1" 200')
WHOLE = re.compile(r'"GET /metrics HTTP/1.1" 200')


class Story:
    """What the tests hand on."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.engine = engines.vllm(site, "vllm", PORT)
        self.before = 0.0
        self.learned = Learned(0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def story(vllm_site: Site, note: Note) -> Iterator[Story]:
    """With vLLM serving."""
    story = Story(vllm_site)
    try:
        story.engine.wait_until_serving()
        note(f"vLLM: serves after {story.engine.started:.1f} s")
        yield story
    finally:
        story.engine.child.stop()


@pytest.fixture(scope="module")
def daemon(story: Story, gateway: Gateway) -> Iterator[Daemon]:
    """The sidecar beside it, told nothing about it."""
    running = Daemon(story.site.work / "sidecar-vllm.log", gateway.url)
    try:
        yield running
    finally:
        running.close()


def test_check_takes_it_from_the_process_table(story: Story, gateway: Gateway) -> None:
    found = command("check", SIDECAR_PUSHGATEWAY_URL=gateway.url)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "SIDECAR_TARGETS: not set" in found.stdout
    assert (
        f"taken  process table: http://localhost:{PORT} (vllm serve, process "
        f"{story.engine.child.pid}): a vllm worker, model tiny-llama" in found.stdout
    )
    assert f"pushgateway: {gateway.url} is ready" in found.stdout
    assert "num_loaded_models_tiny_llama{" in found.stdout


@pytest.mark.usefixtures("story")
def test_the_name_filter_works(note: Note) -> None:
    page = scraper(target.local(PORT, "test"), environment.load({}).settings)
    sizes: list[int] = []
    get = page.http.get

    def measured(path: str) -> tuple[str, str, float]:
        answer = get(path)
        sizes.append(len(answer[0]))
        return answer

    page.http.get = measured  # type: ignore[method-assign]
    whole, filtered, again = page.read(), page.read(), page.read()
    page.http.close()
    note(f"vLLM: a poll reads {sizes[1]} B instead of {sizes[0]} B")
    assert len(sizes) == 3
    assert max(sizes[1:]) < sizes[0] / 8
    assert whole.counters.keys() == filtered.counters.keys() == again.counters.keys()
    assert filtered.kv_tokens == whole.kv_tokens
    assert filtered.started_at == whole.started_at


def test_light_load(story: Story, daemon: Daemon) -> None:
    said = daemon.wait(PORT, "its limit", lambda worker: worker["state"] == "idle")
    assert said["found"] == f"vllm serve, process {story.engine.child.pid}"
    assert said["engine"] == "vllm"
    story.before = steps.light_load(daemon, story.engine)
    steps.was_light(daemon, story.engine)


def test_the_daemon_asks_for_what_it_needs(story: Story, daemon: Daemon) -> None:
    log = story.engine.child.log
    before = log.read_text(encoding="utf-8", errors="replace")
    time.sleep(5)
    lines = log.read_text(encoding="utf-8", errors="replace")[len(before) :]
    assert daemon.at(PORT)["error"] is None
    assert len(FILTERED.findall(lines)) >= 4
    assert not WHOLE.search(lines)


def test_the_estimate_comes_near_the_saturated_rate(
    story: Story, daemon: Daemon, note: Note
) -> None:
    story.learned = steps.full_load(daemon, story.engine, story.before)
    steps.was_near(story.learned, "vLLM", note)


def test_idle_again(story: Story, daemon: Daemon, gateway: Gateway) -> None:
    steps.no_load(daemon, story.engine)
    time.sleep(2)
    steps.is_pushed(daemon, gateway, story.engine)


def test_killed_engine_comes_back_at_another_port(
    story: Story, daemon: Daemon, gateway: Gateway, note: Note
) -> None:
    old = story.engine
    (core,) = old.child.members("VLLM::EngineCore")
    steps.killed(daemon, gateway, old, core, "vLLM", note)
    story.engine = engines.vllm(story.site, "vllm-again", free_port())
    story.engine.wait_until_serving()
    steps.found_again(daemon, gateway, old, story.engine, story.learned)
    ports = old.port, story.engine.port
    steps.numbers_are_sane(daemon, story.learned, *ports)
    changes = " -> ".join(daemon.states(*ports))
    note(f"vLLM: states, the engine killed and at another port in between: {changes}")


def test_sigterm(daemon: Daemon, gateway: Gateway, note: Note) -> None:
    steps.ends_cleanly(daemon, gateway, "vLLM", note)
