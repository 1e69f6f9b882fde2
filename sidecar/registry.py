"""Backends by name: our own, and those that installed packages bring.

A third party adds an engine, an estimator or a sink by an entry point in the group
``sidecar.engines``, ``sidecar.estimators`` or ``sidecar.sinks``; nothing here changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def names(group: str, builtin: Mapping[str, str]) -> list[str]:
    """Every known name of the group: our own in their order, then the others."""
    others = {point.name for point in entry_points(group=group)} - set(builtin)
    return [*builtin, *sorted(others)]


def load(group: str, builtin: Mapping[str, str], name: str) -> Any:
    """Import one backend, and with it the libraries that only it needs.

    Args:
        group: entry point group, ``sidecar.sinks`` and so on.
        builtin: name -> ``module:attribute``; these names cannot be overridden.

    Raises:
        KeyError: nothing of that name is known.
    """
    if name in builtin:
        return EntryPoint(name, builtin[name], group).load()
    for point in entry_points(group=group):
        if point.name == name:
            return point.load()
    raise KeyError(name)
