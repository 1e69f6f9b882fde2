"""What the real tests share: installed engines, a gateway, and a place for figures.

``REAL_ROOT`` names a folder with engines that were installed before; without it they
go to ``.real`` in the checkout. Everything that a run writes is under ``.real``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import engines, tiny_model
from tests.real.child import Child
from tests.real.daemon import CHECKOUT
from tests.real.engines import Site
from tests.real.gateway import Gateway
from tests.real.steps import Note

OWN = CHECKOUT / ".real"
INSTALL_WITHIN = 1800.0

_figures = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """A place for the figures."""
    config.stash[_figures] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures, at the end."""
    if figures := terminalreporter.config.stash[_figures]:
        terminalreporter.section("measured on real engines")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def note(request: pytest.FixtureRequest) -> Note:
    """Writes a figure into the summary."""
    figures = request.config.stash[_figures]
    return figures.append


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The folders and the model, on a CPU that can run it."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    if not {"avx2", "avx512f"} & set(flags):
        pytest.skip("vLLM's CPU build needs AVX2 or AVX-512, and this CPU has neither")
    work = OWN / "run"
    shutil.rmtree(work, ignore_errors=True)
    env = engines.environment(os.environ, work)
    venvs = Path(os.environ.get("REAL_ROOT") or OWN)
    yield Site(venvs, work, tiny_model.make(OWN / tiny_model.NAME), env)
    for name in ("tmp", "cache", "tsdb"):
        shutil.rmtree(work / name, ignore_errors=True)


@pytest.fixture(scope="session")
def gateway(site: Site) -> Iterator[Gateway]:
    """A Pushgateway and a Prometheus, Debian's."""
    _install(site, "debian")
    running = Gateway(site.venvs / "debian", site.work, dict(site.env))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def vllm_site(site: Site) -> Site:
    """With vLLM installed."""
    return _install(site, "vllm")


@pytest.fixture(scope="session")
def dynamo_site(site: Site) -> Site:
    """With Dynamo's frontend and mocker installed."""
    return _install(site, "dynamo")


@pytest.fixture(scope="session")
def dynamo_vllm_site(site: Site) -> Site:
    """With Dynamo's vLLM worker installed."""
    return _install(site, "dynamo-vllm")


def _install(site: Site, part: str) -> Site:
    """Run the script, which does only what is left to do; skip where it cannot."""
    log = OWN / f"install-{part}.log"
    script = Path(__file__).with_name("install.sh")
    arguments = ["bash", str(script), str(site.venvs), part]
    child = Child(
        f"install.sh {part}", arguments, {**os.environ, "PYTHON": sys.executable}, log
    )
    try:
        status = child.process.wait(INSTALL_WITHIN)
    except subprocess.TimeoutExpired:
        status = -1
    finally:
        child.stop()
    if status != 0:
        last = child.tail().splitlines()[-1]
        pytest.skip(f"{part} cannot be installed here (see {log}): {last}")
    return site
