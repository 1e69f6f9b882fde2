"""What makes the image's root folder; tests/packaging/image runs all of it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging.documents import PACKAGING


def _loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


assemble = _loaded(PACKAGING / "image" / "assemble.py")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base of which `lib` is a link, with a library that is a link in there."""
    base = tmp_path / "base"
    (base / "usr/lib").mkdir(parents=True)
    (base / "lib").symlink_to("usr/lib")
    (base / "usr/lib/libx.so.1.2").write_text("x")
    (base / "usr/lib/libx.so.1").symlink_to("libx.so.1.2")
    (base / "usr/lib/absolute.so").symlink_to(base / "lib/libx.so.1")
    return base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


class TestTake:
    @pytest.mark.parametrize("name", ["libx.so.1.2", "libx.so.1", "absolute.so"])
    def test_links_stay_links_to_what_was_copied(
        self, base: Path, root: Path, name: str
    ) -> None:
        new = assemble.Root(root)

        new.take(base / "lib" / name)

        copy = root / str(base).lstrip("/")
        assert (copy / "lib").readlink() == Path("usr/lib")
        assert new.copied == {base / "usr/lib/libx.so.1.2"}
        assert (copy / "usr/lib/libx.so.1.2").read_text() == "x"
        links = {p.name for p in (copy / "usr/lib").iterdir() if p.is_symlink()}
        assert (
            links
            == {
                "libx.so.1.2": set(),
                "libx.so.1": {"libx.so.1"},
                "absolute.so": {"absolute.so", "libx.so.1"},
            }[name]
        )

    def test_twice_is_once(self, base: Path, root: Path) -> None:
        new = assemble.Root(root)

        new.take(base / "lib/libx.so.1")
        new.take(base / "lib/libx.so.1")

        assert len(new.copied) == 1


class TestLeftOut:
    def test_by_name_and_by_the_name_of_a_folder(self, tmp_path: Path) -> None:
        for name in ("kept.py", "test/test_x.py", "a/deep.py", "a/b.pyi", "config-3/x"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()

        found = assemble.files(tmp_path, ("test", "*.pyi", "config-*"))

        assert [path.name for path in found] == ["deep.py", "kept.py"]

    def test_no_name_of_the_own_package_is_left_out(self) -> None:
        package = PACKAGING.parent / "sidecar"
        patterns = assemble.LEFT_OUT_OF_PACKAGES
        taken = set(assemble.files(package, patterns))

        assert set(package.rglob("*.py")) <= taken
        assert package / "estimators" / "prior.json" in taken


class TestLinked:
    def test_the_libraries_and_the_loader_of_a_program(self) -> None:
        names = {path.name for path in assemble.linked([Path(sys.executable)])}

        assert any(name.startswith("libc.so") for name in names)
        assert any(name.startswith("ld-linux") for name in names)

    def test_what_the_base_lacks_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = "x:\n\tlibgone.so.3 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"
        done = subprocess.CompletedProcess(["ldd"], 0, said, "")
        monkeypatch.setattr(assemble.subprocess, "run", lambda *_, **__: done)

        with pytest.raises(SystemExit, match=r"the base lacks libgone\.so\.3"):
            assemble.linked([Path("x")])


class TestDebianPackages:
    def test_are_found_whether_dpkg_knows_the_merged_place_or_not(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "libc6:amd64.list").write_text("/.\n/lib/libc.so.6\n")
        (tmp_path / "zlib1g:amd64.list").write_text("/.\n/usr/lib/libz.so.1\n")
        (tmp_path / "dash.list").write_text("/.\n/bin/dash\n")
        copied = {Path("/usr/lib/libc.so.6"), Path("/lib/libz.so.1")}

        assert assemble.owners(copied, tmp_path) == ["libc6", "zlib1g"]

    def test_of_a_base_without_dpkg_there_are_none(
        self, tmp_path: Path, root: Path
    ) -> None:
        assemble.record_debian_packages(assemble.Root(root), tmp_path / "dpkg")

        assert not root.exists()
