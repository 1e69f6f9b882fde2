#!/usr/bin/env python3
"""Make the root folder of the image: what runs the sidecar, and nothing else.

    python3 packaging/image/assemble.py PACKAGES ROOT

Runs in the Dockerfile's build stage, with the base's own Python: the interpreter, the
standard library and every shared library go from the base to the same places below
ROOT, what pip installed into PACKAGES goes where that interpreter looks for packages.
Debian's Python and the official image's lie elsewhere; nothing here knows where.

What is of no use is left out by name, see ``LEFT_OUT``; the tests run the image to see
that nothing is missed. Licenses and the metadata of packages stay: lawyers and
scanners of vulnerabilities read them.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from py_compile import PycInvalidationMode

NONROOT = 65532
"""The user that distroless images have, too."""

STATE = "/var/lib/capacity-sidecar"

LEFT_OUT_OF_PYTHON = (
    *("__pycache__", "site-packages", "dist-packages", "config-*"),
    *("test", "_test*", "_ctypes_test*", "_xx*", "xx*", "idlelib", "lib2to3"),
    *("ensurepip", "venv", "pydoc_data", "distutils", "tkinter", "_tkinter*"),
    *("turtle*", "curses", "_curses*", "readline*", "dbm", "_dbm*", "_gdbm*"),
    *("sqlite3", "_sqlite3*", "nis*", "crypt.py", "_crypt*", "ossaudiodev*"),
)
LEFT_OUT_OF_PACKAGES = (
    *("__pycache__", "bin", "tests", "*.pyi", "*.pyx", "*.pxd", "*.proto"),
    *("*.c", "*.cc", "*.h", "*.js"),
)

FILES = {
    "/etc/passwd": "root:x:0:0:root:/:/sbin/nologin\n"
    f"nonroot:x:{NONROOT}:{NONROOT}:nonroot:/:/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nnonroot:x:{NONROOT}:\n",
    # Without it the C library asks DNS first, even for localhost.
    "/etc/nsswitch.conf": "hosts: files dns\n",
}
COMMAND = """\
#!{python} -I
import sys

from sidecar.__main__ import main

sys.exit(main())
"""


class Root:
    """The new root folder.

    Attributes:
        copied: the files that came from the base, by their places there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copied: set[Path] = set()

    def at(self, place: str | Path) -> Path:
        """The path of a place of the image; its folder is made."""
        path = self.path / str(place).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def folder(self, place: str) -> Path:
        """The path of a folder of the image; it is made."""
        return self.at(f"{place}/anything").parent

    def take(self, place: Path) -> None:
        """Copy a file of the base, with every symbolic link on the way to it."""
        for link in (*reversed(place.parents), place):
            if link.is_symlink():
                there = os.readlink(link)
                copy = self.at(link)
                if not copy.is_symlink():
                    copy.symlink_to(there)
                rest = place.relative_to(link)
                self.take(Path(os.path.normpath(link.parent / there / rest)))
                return
        if place not in self.copied:
            shutil.copy2(place, self.at(place))
            self.copied.add(place)


def files(folder: Path, left_out: tuple[str, ...]) -> Iterator[Path]:
    """The files of a folder, without those that a name or their folder's leaves out."""
    for entry in sorted(folder.iterdir()):
        if any(fnmatch(entry.name, pattern) for pattern in left_out):
            continue
        if entry.is_dir():
            yield from files(entry, left_out)
        else:
            yield entry


def take_python(root: Root) -> Path:
    """Copy the interpreter and its library; the result is where packages belong."""
    root.take(Path(sys.executable))
    for file in files(Path(sysconfig.get_path("stdlib")), LEFT_OUT_OF_PYTHON):
        root.take(file)
    return Path(site.getsitepackages()[0])


def add_packages(root: Root, packages: Path, place: Path) -> None:
    """Copy what pip installed; its bundle of authorities is everybody's."""
    for file in files(packages, LEFT_OUT_OF_PACKAGES):
        shutil.copy2(file, root.at(place / file.relative_to(packages)))
    # A file mounted over this one changes what everything in the image trusts.
    bundle = root.at("/etc/ssl/certs/ca-certificates.crt")
    bundle.symlink_to(place / "certifi" / "cacert.pem")


def compile_all(root: Root) -> None:
    """Compile all modules once for ever: the root file system may be read-only.

    Without, every start and every probe compiles anew, and takes four times as long.
    The sources stay, for tracebacks that show lines. Nothing is checked against them:
    whatever changes a module makes another image.
    """
    done = compileall.compile_dir(
        root.path,
        maxlevels=64,
        quiet=1,
        workers=0,
        stripdir=str(root.path),
        prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )
    if not done:
        sys.exit("a module cannot be compiled")


def take_libraries(root: Root, packages: Path) -> None:
    """Copy the shared libraries, and their loader, that all of it is linked to."""
    programs = [file for file in root.copied if ".so" in file.suffixes]
    programs += packages.rglob("*.so")
    for library in linked([Path(sys.executable), *programs]):
        if packages not in library.parents:
            root.take(library)


def linked(programs: Iterable[Path]) -> set[Path]:
    """What the loader would load together with these."""
    ldd = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, check=True
    )
    if missing := re.findall(r"(\S+) => not found", ldd.stdout):
        sys.exit(f"the base lacks {', '.join(sorted(set(missing)))}")
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", ldd.stdout)}


def add_etc(root: Root) -> None:
    """The files that the C library reads, and folders to write to."""
    for place, text in FILES.items():
        root.at(place).write_text(text, "utf-8")
    for name in ("os-release", "ld.so.cache"):
        if (file := Path("/etc", name)).exists():
            root.take(file)
    root.folder("/tmp").chmod(0o1777)
    # The group is OpenShift's: there, a container gets any user, but this group.
    state = root.folder(STATE)
    os.chown(state, NONROOT, 0)
    state.chmod(0o770)


def add_command(root: Root) -> None:
    """The command, for the interpreter that was copied."""
    command = root.at("/usr/bin/capacity-sidecar")
    command.write_text(COMMAND.format(python=sys.executable), "utf-8")
    command.chmod(0o755)


def record_debian_packages(root: Root, dpkg: Path = Path("/var/lib/dpkg")) -> None:
    """Say of which Debian packages there are files, where scanners look for it."""
    listed = (dpkg / "status").read_text("utf-8") if dpkg.is_dir() else ""
    stanzas = {
        stanza.partition("\n")[0].removeprefix("Package: "): stanza
        for stanza in listed.split("\n\n")
    }
    for name in owners(root.copied, dpkg / "info"):
        status = root.at(f"/var/lib/dpkg/status.d/{name}")
        status.write_text(f"{stanzas[name].strip()}\n", "utf-8")
        copyright_ = Path("/usr/share/doc", name, "copyright")
        if copyright_.is_file():
            root.take(copyright_)
    if listed:
        for license_ in Path("/usr/share/common-licenses").iterdir():
            root.take(license_)


def owners(copied: Iterable[Path], info: Path) -> list[str]:
    """The names of the Debian packages that have these files."""

    def merged(place: str) -> str:
        # dpkg knows /lib/x and /usr/lib/x apart, the file system does not.
        return place.removeprefix("/usr")

    places = {merged(str(place)) for place in copied}
    return sorted(
        listing.stem.partition(":")[0]
        for listing in info.glob("*.list")
        if places & set(map(merged, listing.read_text("utf-8").splitlines()))
    )


def main() -> None:
    """Make it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("root", type=Path)
    options = parser.parse_args()
    root = Root(options.root)
    add_packages(root, options.packages, take_python(root))
    take_libraries(root, options.packages)
    compile_all(root)
    add_etc(root)
    add_command(root)
    record_debian_packages(root)


if __name__ == "__main__":
    main()
