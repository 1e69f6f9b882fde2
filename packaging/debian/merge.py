"""Merge one tree of packages for each Python into one for all.

usage: merge.py MERGED TREE...     the oldest Python's first
"""

from __future__ import annotations

import filecmp
import shutil
import sys
from pathlib import Path, PurePath

INSTALLERS_OWN = {
    "RECORD",
    "WHEEL",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "uv_cache.json",
    ".lock",
}
"""What an installer notes for itself; the package manager has notes of its own."""


def merge(merged: Path, trees: list[Path]) -> list[PurePath]:
    """Copy every file that is new; the result is the files that are in conflict."""
    conflicts: list[PurePath] = []
    for tree in trees:
        for path in sorted(each for each in tree.rglob("*") if each.is_file()):
            name = path.relative_to(tree)
            if name.parts[0] == "bin" or name.name in INSTALLERS_OWN:
                continue
            target = merged / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            elif not (_oldest_serves(name) or filecmp.cmp(path, target, shallow=False)):
                conflicts.append(name)
    return conflicts


def _oldest_serves(name: PurePath) -> bool:
    """Whether the oldest Python's file does for the newer ones.

    That is what Python's stable ABI (abi3) is for; and the bill of materials of such a
    module belongs to it.
    """
    return name.name.endswith(".abi3.so") or name.parent.name == "sboms"


if __name__ == "__main__":
    merged, *trees = map(Path, sys.argv[1:])
    if conflicts := merge(merged, trees):
        print("not the same for every Python:", *conflicts, sep="\n", file=sys.stderr)
        sys.exit(1)
