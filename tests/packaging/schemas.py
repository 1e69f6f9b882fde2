"""The schemas that a cluster would hold the documents against.

Those in schemas/ are of the oldest releases that the manifests are for; later ones only
add fields. Each says where it is from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.rendering import Document, objects

# The oldest release for AutoscalingMetric; native sidecars are older.
KUBERNETES = "1.35"

# Fields by prometheus-engine's doc/api.md (PodMonitoringSpec, ScrapeEndpoint,
# RelabelingRule, TargetLabels), and by GKE's page "Expose custom metrics for
# autoscaling". Neither is in any validator's catalogue.
GOOGLES = {
    "PodMonitoring": {
        "selector": {"matchLabels", "matchExpressions"},
        "endpoints": {
            *("port", "scheme", "path", "params", "interval", "timeout"),
            "metricRelabeling",
        },
        "metricRelabeling": {
            *("sourceLabels", "separator", "targetLabel", "regex", "modulus"),
            *("replacement", "action"),
        },
        "targetLabels": {"metadata", "fromPod"},
        "spec": {"selector", "endpoints", "targetLabels", "limits", "filterRunning"},
    },
    "AutoscalingMetric": {
        "spec": {"metrics"},
        "pod": {"selector", "containers"},
        "selector": {"matchLabels"},
        "containers": {"endpoint", "metrics"},
        "endpoint": {"port", "path"},
        "gauge": {"name", "prometheusMetricName"},
    },
}

_FOLDER = Path(__file__).parent / "schemas"


def custom_kinds() -> set[str]:
    """Kinds of prometheus-operator and KEDA."""
    return {path.stem for path in _FOLDER.glob("*.json")}


def validate(document: Document) -> None:
    """Hold a document against its schema; no field may be unknown.

    Raises:
        Exception: the validator's own, that says what is wrong.
    """
    kind = document["kind"]
    if kind in custom_kinds():
        jsonschema = pytest.importorskip("jsonschema")
        schema = json.loads((_FOLDER / f"{kind}.json").read_text("utf-8"))
        jsonschema.Draft7Validator(_closed(schema)).validate(document)
    elif kind in GOOGLES:
        for name, node in objects(document["spec"], "spec"):
            assert set(node) <= GOOGLES[kind].get(name, set(node)), name
    else:
        validator = pytest.importorskip("kubernetes_validate")
        validator.validate(document, KUBERNETES, strict=True)


def _closed(schema: Any) -> Any:
    """Without room for fields that are not in it: the API server drops those."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(each) for name, each in schema.items()}
    if schema.get("properties") and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
