"""Where readings go."""

from __future__ import annotations

from sidecar.registry import SINKS
from sidecar.settings import Settings
from sidecar.sinks.base import Sink

OWN_PAGE = "prometheus"


def chosen(settings: Settings) -> list[str]:
    """The sinks to use: as set outright, else the own page and those whose settings
    name a destination."""
    if settings.sinks is not None:
        return list(settings.sinks)
    models = ((name, getattr(settings, name, None)) for name in SINKS.builtin)
    return [OWN_PAGE, *(n for n, model in models if getattr(model, "is_set", False))]


def build(name: str, settings: Settings) -> Sink:
    """One sink, with the libraries that only it needs."""
    sink: Sink = SINKS.load(name)(settings)
    return sink
