"""The methods that turn intervals into a capacity."""

from __future__ import annotations

from typing import Any

from sidecar.estimators.base import Estimator
from sidecar.registry import ESTIMATORS
from sidecar.settings import Settings


def build(settings: Settings, max_concurrency: float | None) -> Estimator[Any]:
    """The configured estimator.

    Args:
        max_concurrency: the sequence limit where the engine's command line shows it.
    """
    estimator: Estimator[Any] = ESTIMATORS.load(settings.estimator)(
        settings, max_concurrency
    )
    return estimator
