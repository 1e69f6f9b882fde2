"""What prometheus-adapter asks Prometheus for when an HPA asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.packaging.documents import KUBERNETES, documents


def rule() -> dict[str, Any]:
    """The one rule of the chart's values."""
    (values,) = documents(KUBERNETES / "prometheus-adapter" / "values.yaml")
    (found,) = values["rules"]["custom"]
    return dict(found)


def query(pods: Sequence[str]) -> str:
    """The rule's template, filled in as the adapter does for pods of the namespace."""
    asked: str = rule()["metricsQuery"]
    for template, text in {
        "<<.Series>>": "llm_worker_utilization",
        "<<.LabelMatchers>>": f'namespace="llm",pod=~"{"|".join(pods)}"',
        "<<.GroupBy>>": "pod",
    }.items():
        asked = asked.replace(template, text)
    return asked
