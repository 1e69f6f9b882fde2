"""Print the paragraphs of debian/copyright about the packages of a tree.

usage: bundled.py TREE
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions

HEAD = """
Files: usr/lib/capacity-sidecar/*
Copyright: their authors, named in the licenses
License: bundled
 Packages from PyPI, unchanged, each under its own license, with its text in
 /usr/lib/capacity-sidecar/NAME-VERSION.dist-info:
 ."""

OURS = """
Files: usr/lib/capacity-sidecar/sidecar/*
Copyright: 2026 the authors of capacity-sidecar
License: Apache-2.0"""


def line(package: Distribution) -> str:
    """A package, and its license as its authors name it."""
    metadata = package.metadata
    field = "License-Expression" if "License-Expression" in metadata else "License"
    return f" {package.name} {package.version}: {metadata[field].splitlines()[0]}"


if __name__ == "__main__":
    lines = [line(each) for each in distributions(path=[sys.argv[1]])]
    others = [each for each in lines if not each.startswith(" capacity-sidecar ")]
    print(HEAD, *sorted(others, key=str.lower), OURS, sep="\n")
