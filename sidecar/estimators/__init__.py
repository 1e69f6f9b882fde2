"""The methods that turn intervals into a capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar import registry
from sidecar.estimators.base import Estimator

if TYPE_CHECKING:
    from sidecar.settings import Settings

GROUP = "sidecar.estimators"
BUILTIN = {
    "curve": "sidecar.estimators.curve:build",
    "rate": "sidecar.estimators.rate:build",
}


def names() -> list[str]:
    """The methods that ``SIDECAR_ESTIMATOR`` may name."""
    return registry.names(GROUP, BUILTIN)


def build(settings: Settings, max_concurrency: float | None) -> Estimator[Any]:
    """The configured estimator.

    Args:
        max_concurrency: the sequence limit where the engine's command line shows it.
    """
    factory = registry.load(GROUP, BUILTIN, settings.estimator)
    estimator: Estimator[Any] = factory(settings, max_concurrency)
    return estimator
