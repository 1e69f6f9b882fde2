"""packaging/kubernetes/rules/prometheusrule.yaml, written from the rule file.

Run ``python -m tests.packaging.prometheusrule`` (``make docs``) to write it. kustomize
cannot: a rule file is no Kubernetes object.
"""

from __future__ import annotations

from tests.packaging.documents import KUBERNETES, PROMETHEUS

RULES = PROMETHEUS / "rules.yaml"
MANIFEST = KUBERNETES / "rules" / "prometheusrule.yaml"

_HEAD = """\
# Made of ../../prometheus/rules.yaml, where the reasons stand: make docs.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: capacity-sidecar
spec:
"""


def render() -> str:
    """The document: the groups of the rule file, indented."""
    _, groups, rest = RULES.read_text("utf-8").partition("groups:\n")
    lines = (groups + rest).splitlines()
    return _HEAD + "".join(f"  {line}".rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    MANIFEST.write_text(render(), "utf-8")
