"""Where readings go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import registry
from sidecar.sinks.base import Sink

if TYPE_CHECKING:
    from sidecar.settings import Settings

GROUP = "sidecar.sinks"
OWN_PAGE = "prometheus"
BUILTIN = {
    "prometheus": "sidecar.sinks.prometheus:build",
    "pushgateway": "sidecar.sinks.pushgateway:build",
    "stdout": "sidecar.sinks.stdout:build",
}


def names() -> list[str]:
    """The sinks that ``SIDECAR_SINKS`` may name."""
    return registry.names(GROUP, BUILTIN)


def chosen(settings: Settings) -> list[str]:
    """The sinks to use: as set outright, else the own page and those whose settings
    name a destination."""
    if settings.sinks is not None:
        return list(settings.sinks)
    models = ((name, getattr(settings, name, None)) for name in BUILTIN)
    return [OWN_PAGE, *(n for n, model in models if getattr(model, "is_set", False))]


def build(name: str, settings: Settings) -> Sink:
    """One sink, with the libraries that only it needs."""
    sink: Sink = registry.load(GROUP, BUILTIN, name)(settings)
    return sink
