"""What the tests of packaging/ read: its files, their shell blocks and YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PACKAGING = ROOT / "packaging"
GCP = PACKAGING / "gcp"
KUBERNETES = PACKAGING / "kubernetes"
GKE = KUBERNETES / "gke"
PROMETHEUS = PACKAGING / "prometheus"
DASHBOARD = PACKAGING / "grafana" / "capacity.json"

_KNOWN = json.loads((Path(__file__).parent / "gcloud.json").read_text("utf-8"))
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(gcloud [^`]+)`")
_GCLOUD = re.compile(r"\bgcloud (?=[a-z])")
_FLAG = re.compile(r"(?:^|\s)(--[a-z][a-z-]*)")
_ENDS = "|;)&\n"


def files() -> list[Path]:
    """Every file of these folders."""
    folders = (GCP, KUBERNETES, PROMETHEUS, DASHBOARD.parent)
    return sorted(path for folder in folders for path in folder.rglob("*.*"))


def readmes() -> list[Path]:
    """The pages that people paste from."""
    return [folder / "README.md" for folder in (GCP, GKE, KUBERNETES, PROMETHEUS)]


def pages() -> list[Path]:
    """Every page of this repository with something to paste."""
    return [*readmes(), README, PACKAGING / "compose" / "README.md"]


def shell_blocks(page: Path) -> list[str]:
    """The blocks of a page that are to be pasted."""
    return _BLOCK.findall(page.read_text("utf-8"))


def yaml_blocks(page: Path) -> list[Any]:
    """The YAML that a page shows, to be put into a file of one's own."""
    return [yaml.safe_load(text) for text in yaml_texts(page)]


def yaml_texts(page: Path) -> list[str]:
    """The same as it stands there."""
    return _YAML.findall(page.read_text("utf-8"))


def documents(path: Path) -> list[dict[str, Any]]:
    """The YAML documents of a file."""
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


@dataclass(frozen=True)
class Gcloud:
    """One command of a page: its name and the flags that it uses."""

    text: str
    name: str
    flags: tuple[str, ...]

    @property
    def allowed(self) -> frozenset[str]:
        """The flags that were looked up in the command's reference."""
        own = _KNOWN["commands"].get(self.name, {"flags": []})["flags"]
        return frozenset((*own, *_KNOWN["everywhere"]["flags"]))


def known_commands() -> dict[str, dict[str, Any]]:
    """Command -> the page of its reference, and the flags looked up there."""
    commands: dict[str, dict[str, Any]] = _KNOWN["commands"]
    return commands


def gcloud_commands(page: Path) -> Iterator[Gcloud]:
    """Every gcloud command of a page, in its blocks and in its text."""
    text = page.read_text("utf-8")
    for block in (*shell_blocks(page), *_INLINE.findall(_without_blocks(text))):
        joined = re.sub(r"\\?\n\s+", " ", block)
        for match in _GCLOUD.finditer(joined):
            yield _command(_until_its_end(joined[match.end() :]))


def _command(text: str) -> Gcloud:
    words = text.split()
    return Gcloud(text, _name(words), tuple(_FLAG.findall(_unquoted(text))))


def _name(words: Sequence[str]) -> str:
    """The longest known command that the words begin with; "" if there is none."""
    for length in range(len(words), 0, -1):
        name = " ".join(words[:length])
        if name in _KNOWN["commands"]:
            return name
    return ""


def _until_its_end(text: str) -> str:
    """Up to the first pipe, bracket or line's end that is not in quotes."""
    quote = ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _ENDS or text.startswith(" #", position):
            return text[:position]
    return text


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", text)


def _without_blocks(text: str) -> str:
    return re.sub(r"\s+", " ", _BLOCK.sub("", text))
