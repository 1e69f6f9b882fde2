"""The package: built once for a state of the sources, kept until `make clean`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.process.debian import binary

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "packaging" / "debian" / "build.sh"
CACHE = ROOT / ".real" / "deb"
NAME = "capacity-sidecar"
SOURCES = (
    "LICENSE",
    "README.md",
    "packaging/debian",
    "packaging/requirements",
    "packaging/systemd",
    "pyproject.toml",
    "sidecar",
)


def package(arch: str | None = None) -> Path:
    """Return the .deb of this checkout; for this machine unless told otherwise."""
    arch = arch or _machine()
    kept = CACHE / f"{_state()}-{arch}"
    if not kept.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE, prefix=".unfinished-") as folder:
            unfinished = Path(folder) / "built"
            # Two minutes less than the smallest.
            build(arch, unfinished, XZ_LEVEL="1")
            try:
                unfinished.rename(kept)
            except OSError:
                # Another session was faster; anything else is an error.
                assert kept.is_dir()
    (found,) = kept.glob(f"{NAME}_*_{arch}.deb")
    return found


def build(arch: str, folder: Path, *prefix: str, **environ: str) -> None:
    """Run the build; skip where the machine cannot.

    Args:
        prefix: the command that runs it, and its arguments.
        environ: variables to add.
    """
    binary("dpkg-buildpackage", "dpkg-dev")
    binary("dh", "debhelper")
    beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*prefix, str(BUILD), arch, str(folder)],
        env={**os.environ, "PATH": beside, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def release(package: Path, version: str, folder: Path, settings: str = "") -> Path:
    """Return the same package as another version, with `settings` added to its own."""
    tree = folder / "release"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    lines = control.read_text("utf-8").splitlines(keepends=True)
    control.write_text(
        "".join(
            f"Version: {version}\n" if line.startswith("Version:") else line
            for line in lines
        ),
        "utf-8",
    )
    with (tree / "etc" / "default" / NAME).open("a", encoding="utf-8") as shipped:
        shipped.write(settings)
    made = folder / f"{NAME}_{version}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build"]
    subprocess.run([*command, tree, made], check=True, stdout=subprocess.DEVNULL)
    return made


def _machine() -> str:
    dpkg = binary("dpkg", "dpkg")
    return subprocess.check_output([dpkg, "--print-architecture"], text=True).strip()


def _state() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for each in SOURCES for path in _files(ROOT / each)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = [each for each in path.rglob("*") if each.is_file()]
    return [each for each in found if "__pycache__" not in each.parts]
