"""Metadata as directories: listings, and everything below as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LISTS = ("aliases", "scopes")
_NUMBERS = ("id", "numeric-project-id")
_VERBATIM = ("attributes", "service-accounts")
"""Directories whose entries keep their names in JSON."""

Json = str | int | list[str] | dict[str, "Json"]


def below(values: Mapping[str, str], directory: str) -> dict[str, str]:
    """The values under a directory, ``""`` or ``instance/`` say, by what follows it."""
    return {
        path.removeprefix(directory): value
        for path, value in values.items()
        if path.startswith(directory)
    }


def listing(inside: Mapping[str, str]) -> str:
    """One entry a line, directories with a slash."""
    entries = {
        first + slash for first, slash, _ in (path.partition("/") for path in inside)
    }
    return "".join(f"{entry}\n" for entry in sorted(entries))


def as_json(inside: Mapping[str, str], directory: str) -> Json:
    """The tree: names in camel case, but for attributes and accounts."""
    tree: dict[str, Json] = {}
    verbatim = directory.rstrip("/").endswith(_VERBATIM)
    for name in sorted({path.partition("/")[0] for path in inside}):
        key = name if verbatim else _camel(name)
        if name in inside:
            tree[key] = leaf(name, inside[name])
        else:
            tree[key] = as_json(below(inside, f"{name}/"), f"{directory}{name}/")
    return tree


def leaf(name: str, value: str) -> Json:
    """A value: ids are numbers, where they are; scopes and aliases are lists."""
    if name in _LISTS:
        return value.split("\n")
    return int(value) if name in _NUMBERS and value.isdigit() else value


def _camel(name: str) -> str:
    return re.sub(r"-(\w)", lambda match: match[1].upper(), name)
