"""The package, and a Debian to install it into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from sidecar.simulator import SimulatedWorker
from tests.gcp.metric_service import MetricService
from tests.packaging.deb import built
from tests.packaging.deb.chroot import Chroot, unpacked
from tests.process.workers import fast_worker


@pytest.fixture(scope="session")
def package() -> Path:
    """The .deb of this checkout."""
    return built.package()


@pytest.fixture(scope="session")
def content(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package installs, in a folder."""
    return unpacked(package, tmp_path_factory.mktemp("content"))


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Chroot]:
    """A Debian with Python and nothing else."""
    debian = Chroot.copied(tmp_path / "debian")
    yield debian
    # pytest would keep three runs of a third of a gigabyte for each test.
    rmtree(debian.root)


@pytest.fixture
def worker() -> Iterator[SimulatedWorker]:
    """A worker under load."""
    with fast_worker() as worker:
        yield worker


@pytest.fixture
def service() -> Iterator[MetricService]:
    """Google's Cloud Monitoring."""
    with MetricService() as service:
        yield service
