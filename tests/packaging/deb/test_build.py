"""How the package is built."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.deb.built import ROOT, build
from tests.packaging.deb.chroot import unpacked

QUICK = {"XZ_LEVEL": "0"}
AARCH64 = 183
"""The machine's number in the head of an ELF file."""


@pytest.mark.packaging
class TestBuilding:
    def test_two_builds_are_the_same(self, tmp_path: Path) -> None:
        """Whoever builds it, wherever, with whatever habits."""
        build("amd64", tmp_path / "one", **QUICK)
        careful = ("sh", "-c", 'umask 077; exec "$0" "$@"')
        build("amd64", tmp_path / "two", *careful, TZ="Asia/Tokyo", **QUICK)

        digests = {
            hashlib.sha256(each.read_bytes()).hexdigest()
            for each in tmp_path.glob("*/*.deb")
        }
        assert len(list(tmp_path.glob("*/*.deb"))) == 2
        assert len(digests) == 1

    def test_any_machine_builds_for_arm64(self, tmp_path: Path) -> None:
        build("arm64", tmp_path, **QUICK)
        (package,) = tmp_path.glob("*_arm64.deb")

        content = unpacked(package, tmp_path / "content")
        heads = [each.read_bytes()[:20] for each in content.rglob("*.so*")]
        assert heads
        assert {int.from_bytes(head[18:], "little") for head in heads} == {AARCH64}


class TestMerging:
    def merge(self, folder: Path, *files: tuple[str, str]) -> tuple[Path, str]:
        """Merge trees of one file each; the result, and what was complained about."""
        trees = []
        for number, (name, text) in enumerate(files):
            trees.append(folder / str(number))
            path = trees[-1] / name
            path.parent.mkdir(parents=True)
            path.write_text(text, "utf-8")
        script = ROOT / "packaging" / "debian" / "merge.py"
        done = subprocess.run(
            [sys.executable, script, folder / "merged", *trees],
            capture_output=True,
            text=True,
        )
        assert done.returncode == (1 if done.stderr else 0)
        return folder / "merged", done.stderr

    def test_equal_files_lie_there_once(self, tmp_path: Path) -> None:
        merged, complaint = self.merge(tmp_path, ("a/b.py", "x"), ("a/b.py", "x"))

        assert complaint == ""
        assert [each.name for each in merged.rglob("*.*")] == ["b.py"]

    def test_a_file_that_differs_fails_the_build(self, tmp_path: Path) -> None:
        _, complaint = self.merge(tmp_path, ("a/b.py", "x"), ("a/b.py", "y"))

        assert complaint == "not the same for every Python:\na/b.py\n"

    def test_modules_for_different_pythons_lie_side_by_side(
        self, tmp_path: Path
    ) -> None:
        old, new = "m.cpython-310-x86_64-linux-gnu.so", "m.cpython-311-x86_64.so"
        merged, _ = self.merge(tmp_path, (old, "x"), (new, "y"))

        assert sorted(each.name for each in merged.iterdir()) == sorted([old, new])

    def test_the_oldest_module_of_the_stable_abi_serves_all(
        self, tmp_path: Path
    ) -> None:
        merged, complaint = self.merge(tmp_path, ("m.abi3.so", "3"), ("m.abi3.so", "4"))

        assert complaint == ""
        assert (merged / "m.abi3.so").read_text("utf-8") == "3"
