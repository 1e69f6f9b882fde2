"""Backends by name: our own, and those that installed packages bring.

A third party adds an engine, an estimator or a sink by an entry point in the group
``sidecar.engines``, ``sidecar.estimators`` or ``sidecar.sinks``; nothing here changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@dataclass(frozen=True)
class Registry:
    """The backends of one kind.

    Attributes:
        group: entry point group.
        builtin: name -> ``module:attribute``, in order; these cannot be overridden.
    """

    group: str
    builtin: Mapping[str, str]

    def names(self) -> list[str]:
        """Every known name: our own in their order, then the others."""
        others = {point.name for point in entry_points(group=self.group)}
        return [*self.builtin, *sorted(others - set(self.builtin))]

    def load(self, name: str) -> Any:
        """Import one backend, and with it the libraries that only it needs.

        Raises:
            KeyError: nothing of that name is known.
        """
        if name in self.builtin:
            return EntryPoint(name, self.builtin[name], self.group).load()
        for point in entry_points(group=self.group):
            if point.name == name:
                return point.load()
        raise KeyError(name)


ENGINES = Registry(
    "sidecar.engines",
    {
        "dynamo": "sidecar.engines.dynamo:ENGINE",
        "vllm": "sidecar.engines.vllm:ENGINE",
        "sglang": "sidecar.engines.sglang:ENGINE",
        "trtllm": "sidecar.engines.trtllm:ENGINE",
        "llamacpp": "sidecar.engines.llamacpp:ENGINE",
    },
)
ESTIMATORS = Registry(
    "sidecar.estimators",
    {
        "curve": "sidecar.estimators.curve:build",
        "rate": "sidecar.estimators.rate:build",
    },
)
SINKS = Registry(
    "sidecar.sinks",
    {
        "prometheus": "sidecar.sinks.prometheus:build",
        "pushgateway": "sidecar.sinks.pushgateway:build",
        "cloud_monitoring": "sidecar.sinks.cloud_monitoring:build",
        "stdout": "sidecar.sinks.stdout:build",
    },
)
