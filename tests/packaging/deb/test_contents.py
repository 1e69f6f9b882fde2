"""What is in the package, and what it asks of a machine."""

from __future__ import annotations

import re
import subprocess
import tarfile
from importlib.metadata import distributions
from io import BytesIO
from pathlib import Path

import pytest

from sidecar import __version__
from tests.packaging.deb.built import ROOT
from tests.process.debian import binary

pytestmark = pytest.mark.packaging

TREE = "usr/lib/capacity-sidecar"
PLACES = re.compile(
    r"usr/bin/capacity-sidecar|(usr/)?lib/systemd/system/capacity-sidecar\.service|"
    r"etc/default/capacity-sidecar|etc/capacity-sidecar|"
    r"usr/lib/capacity-sidecar/.*|usr/share/doc/capacity-sidecar/.*|"
    r"usr/share/lintian/overrides/capacity-sidecar"
)
OLDEST_SYSTEM = (2, 35)
"""The glibc of Ubuntu 22.04."""

LIBRARIES = {
    "libc6": {"c.so.6", "m.so.6", "dl.so.2", "pthread.so.0", "rt.so.1"},
    "libgcc-s1": {"gcc_s.so.1"},
    "libstdc++6": {"stdc++.so.6"},
}


@pytest.fixture(scope="module")
def members(package: Path) -> dict[str, tarfile.TarInfo]:
    """Path -> what the package says of it."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with tarfile.open(fileobj=BytesIO(subprocess.check_output(command))) as archive:
        return {e.name.removeprefix("./"): e for e in archive if e.name != "."}


@pytest.fixture(scope="module")
def depends(package: Path) -> dict[str, list[str]]:
    """Name -> the conditions on its version."""
    text = field(package, "Depends")
    wanted: dict[str, list[str]] = {}
    for name, version in re.findall(r"([\w.+-]+)(?: \(([^)]+)\))?(?:, |$)", text):
        wanted.setdefault(name, []).append(version)
    return wanted


def field(package: Path, name: str) -> str:
    """Return one field of the package's control file."""
    command = ["dpkg-deb", "--field", str(package), name]
    return subprocess.check_output(command, text=True).strip()


def compiled(content: Path) -> list[Path]:
    return sorted((content / TREE).rglob("*.so*"))


class TestFiles:
    def test_they_are_where_they_belong(
        self, members: dict[str, tarfile.TarInfo]
    ) -> None:
        leaves = {
            name
            for name, each in members.items()
            if not (each.isdir() and any(o.startswith(f"{name}/") for o in members))
        }

        assert [name for name in leaves if not PLACES.fullmatch(name)] == []

    def test_they_are_root_s_and_only_the_command_may_be_run(
        self, members: dict[str, tarfile.TarInfo]
    ) -> None:
        assert {(each.uname, each.gname) for each in members.values()} == {
            ("root", "root")
        }
        folders = {name: each.mode for name, each in members.items() if each.isdir()}
        files = {name: each.mode for name, each in members.items() if each.isfile()}
        assert len(folders) + len(files) == len(members)
        assert folders.pop("etc/capacity-sidecar") == 0o700
        assert files.pop("usr/bin/capacity-sidecar") == 0o755
        assert set(folders.values()) == {0o755}
        assert set(files.values()) == {0o644}

    def test_the_settings_are_kept_over_upgrades(self, package: Path) -> None:
        command = ["dpkg-deb", "--info", str(package), "conffiles"]
        conffiles = subprocess.check_output(command, text=True)

        assert conffiles == "/etc/default/capacity-sidecar\n"

    def test_the_unit_and_the_settings_are_those_of_the_checkout(
        self, content: Path
    ) -> None:
        systemd = ROOT / "packaging" / "systemd"
        (unit,) = content.glob("**/lib/systemd/system/capacity-sidecar.service")
        settings = content / "etc" / "default" / "capacity-sidecar"

        assert unit.read_bytes() == (systemd / unit.name).read_bytes()
        assert settings.read_bytes() == (systemd / f"{unit.stem}.env").read_bytes()

    def test_what_the_unit_names_is_there(self, content: Path) -> None:
        (unit,) = content.glob("**/capacity-sidecar.service")
        named = set(re.findall(r"/(?:usr|etc/default)/[\w./-]+", unit.read_text()))
        # Of coreutils, which is essential.
        ours = named - {"/usr/bin/timeout"}

        assert len(ours) >= 3
        assert {each for each in ours if not (content / each[1:]).is_file()} == set()

    def test_nothing_tells_where_it_was_built(self, content: Path) -> None:
        told = str(ROOT).encode()
        files = [each for each in content.rglob("*") if each.is_file()]

        assert [each for each in files if told in each.read_bytes()] == []

    def test_every_package_has_its_license(self, content: Path) -> None:
        doc = content / "usr" / "share" / "doc" / "capacity-sidecar"
        told = (doc / "copyright").read_text("utf-8")
        found = list(distributions(path=[str(content / TREE)]))

        names = {each.name for each in found}
        assert {"capacity-sidecar", "pydantic", "google-cloud-monitoring"} <= names
        for each in found:
            (about,) = (content / TREE).glob(
                f"{re.sub('[-.]', '?', each.name)}-{each.version}.dist-info"
            )
            assert list(about.rglob("LICENSE*")), about
            ours = each.name == "capacity-sidecar"
            assert ours or f"\n {each.name} {each.version}: " in told


class TestNeeds:
    def test_the_version_is_the_sidecar_s(self, package: Path) -> None:
        """With the commit where it is not the release's, or apt would not upgrade."""
        version = field(package, "Version")

        commit = re.escape(__version__) + r"\+git\d{14}\.[0-9a-f]+"
        assert version == __version__ or re.fullmatch(commit, version)

    def test_every_compiled_module_is_there_for_every_python(
        self, content: Path, depends: dict[str, list[str]]
    ) -> None:
        tagged = [re.split(r"\.cpython-3(\d+)-", str(p)) for p in compiled(content)]
        for_all = {parts[0] for parts in tagged if len(parts) == 1}
        minors: dict[str, set[int]] = {}
        for module, minor, _ in (parts for parts in tagged if len(parts) == 3):
            minors.setdefault(module, set()).add(int(minor))

        oldest, before = (
            int(re.sub(r".*3\.(\d+)~", r"\1", each)) for each in depends["python3"]
        )
        assert len(minors) >= 4
        assert set(map(frozenset, minors.values())) == {
            frozenset(range(oldest, before))
        }
        assert all(module.endswith(".abi3.so") for module in for_all)

    def test_every_library_is_a_dependency(
        self, content: Path, depends: dict[str, list[str]]
    ) -> None:
        readelf = binary("readelf", "binutils")
        known = {f"lib{name}" for names in LIBRARIES.values() for name in names}
        for module in compiled(content):
            text = subprocess.check_output([readelf, "-dVW", module], text=True)
            needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
            symbols = re.findall(r"\bGLIBC_(\d+)\.(\d+)", text)

            (libc,) = depends["libc6"]
            newest = max((int(major), int(minor)) for major, minor in symbols)
            assert {each for each in needed if "ld-linux" not in each} <= known
            assert libc.startswith(">= ")
            promised = tuple(map(int, libc.removeprefix(">= ").split(".")))
            assert newest <= promised <= OLDEST_SYSTEM
        assert set(LIBRARIES) <= set(depends)

    def test_lintian_has_nothing_to_say(self, package: Path) -> None:
        lintian = binary("lintian", "lintian")
        command = [lintian, "--allow-root", "--fail-on", "error,warning"]
        done = subprocess.run([*command, package], capture_output=True, text=True)

        assert done.returncode == 0, done.stdout
