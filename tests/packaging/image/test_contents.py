"""What is in the image, and what is not."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar import __version__
from tests.packaging.image import engine
from tests.packaging.image.container import run

pytestmark = pytest.mark.packaging

MEGABYTE = 1_000_000
LARGEST = {"base": 80 * MEGABYTE, "gcp": 120 * MEGABYTE}

IMPORT_ALL = """
import importlib, pkgutil, sidecar, sysconfig
for module in pkgutil.walk_packages(sidecar.__path__, "sidecar."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if not error.name.startswith(("matplotlib", "google", "grpc")):
            raise
for extension in pkgutil.iter_modules([sysconfig.get_path("stdlib") + "/lib-dynload"]):
    importlib.import_module(extension.name)
"""
VERSIONS = """
from importlib.metadata import distributions
for each in distributions():
    print(each.name.lower(), each.version)
"""


@pytest.fixture(scope="session")
def files(image: str) -> Iterator[list[Path]]:
    """Every file of the image, where it can be looked at."""
    folder = Path(engine.podman("image", "mount", image).stdout.strip())
    yield [path for path in folder.rglob("*") if not path.is_dir()]
    engine.podman("image", "unmount", image)


def python(image: str, code: str) -> str:
    """What the image's Python prints."""
    done = run(image, "-I", "-c", code, options=("--entrypoint=python3",))
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestTheImage:
    def test_is_small(self, either_image: str) -> None:
        extra = either_image.rpartition(":")[2]

        assert engine.inspect("image", either_image)["Size"] < LARGEST[extra]

    def test_has_all_that_is_imported(self, either_image: str) -> None:
        assert python(either_image, IMPORT_ALL) == ""

    def test_says_what_it_is(self, image: str) -> None:
        found = engine.inspect("image", image)

        assert found["User"] == "65532:65532"
        assert found["Config"]["Entrypoint"] == ["/usr/bin/capacity-sidecar"]
        assert found["Config"]["Cmd"] == ["run"]
        assert list(found["Config"]["ExposedPorts"]) == ["9846/tcp"]
        # gRPC brings authorities of its own and asks nobody else's file.
        environ = dict(each.split("=", 1) for each in found["Config"]["Env"])
        trusted = environ["SSL_CERT_FILE"]
        assert environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] == trusted
        probe = ["CMD", "/usr/bin/capacity-sidecar", "healthy"]
        assert found["Healthcheck"]["Test"] == probe
        assert found["Labels"]["org.opencontainers.image.version"] == __version__
        assert found["Labels"]["org.opencontainers.image.revision"] == "a-revision"

    def test_knows_the_versions_of_its_packages(self, image: str) -> None:
        """As scanners do."""
        lock = (engine.ROOT / "packaging/requirements/gcp.txt").read_text("utf-8")
        locked = {
            tuple(line.split()[0].split("=="))
            for line in lock.splitlines()
            if "==" in line
        }

        found = {tuple(line.split()) for line in python(image, VERSIONS).splitlines()}

        assert ("capacity-sidecar", __version__) in found
        assert {(n.replace("_", "-"), v) for n, v in found} >= locked - {("", "")}


class TestFiles:
    def test_there_is_no_shell_nor_any_other_program(self, files: list[Path]) -> None:
        programs = {
            path.name
            for path in files
            if path.parent.name in {"bin", "sbin"} and not path.is_symlink()
        }

        assert programs == {"capacity-sidecar", "python3.11"}

    def test_nothing_runs_with_the_rights_of_another(self, files: list[Path]) -> None:
        modes = [path.lstat().st_mode for path in files]

        assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes)

    def test_every_module_is_compiled(self, files: list[Path]) -> None:
        """Else each start would do it anew: it cannot be written down."""
        compiled = {path.name.split(".")[0] for path in files if path.suffix == ".pyc"}
        modules = {path.stem for path in files if path.suffix == ".py"}

        assert modules - compiled == set()

    def test_licenses_are_there(self, files: list[Path]) -> None:
        packages = {path.parent for path in files if path.name == "METADATA"}
        licensed = {
            package
            for package in packages
            for path in files
            if package in path.parents and "LICEN" in path.name.upper()
        }

        assert {package.name for package in packages - licensed} == set()

    def test_scanners_see_the_packages_of_debian(self, files: list[Path]) -> None:
        recorded = [path for path in files if path.parent.name == "status.d"]

        assert {"libc6", "libssl3", "libgcc-s1"} <= {path.name for path in recorded}
        for path in recorded:
            assert f"Package: {path.name}\n" in (text := path.read_text("utf-8"))
            assert "\nVersion: " in text

    def test_threads_can_end(self, files: list[Path]) -> None:
        """The C library loads this one by itself, when a thread of Python's ends."""
        assert "libgcc_s.so.1" in {path.name for path in files}
