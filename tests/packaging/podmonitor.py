"""What a Prometheus does with a PodMonitor, without a cluster.

`scrape_config` is what prometheus-operator makes of it (pkg/prometheus/promcfg.go,
generatePodMonitorConfig); `targets` is what Prometheus finds in a pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.packaging.rendering import Document


def scrape_config(
    monitor: Document, found: Sequence[Document], interval: str
) -> Document:
    """The scrape job of a PodMonitor with one endpoint, selected by port name."""
    name, namespace = monitor["metadata"]["name"], monitor["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    meta = "__meta_kubernetes_"
    selected = [
        _keep(
            [
                f"{meta}{kind}_{plain(key)}"
                for kind in ("pod_label", "pod_labelpresent")
            ],
            f"({value});true",
        )
        for key, value in monitor["spec"]["selector"]["matchLabels"].items()
    ]
    relabeled = [
        {
            "action": "drop",
            "source_labels": [f"{meta}pod_phase"],
            "regex": "(Failed|Succeeded)",
        },
        *selected,
        _keep([f"{meta}pod_container_port_name"], endpoint["port"]),
        {"source_labels": [f"{meta}namespace"], "target_label": "namespace"},
        {"source_labels": [f"{meta}pod_container_name"], "target_label": "container"},
        {"source_labels": [f"{meta}pod_name"], "target_label": "pod"},
        {"target_label": "job", "replacement": f"{namespace}/{name}"},
        {"target_label": "endpoint", "replacement": endpoint["port"]},
        *(
            {"source_labels": each["sourceLabels"], "target_label": each["targetLabel"]}
            for each in endpoint["relabelings"]
        ),
    ]
    return {
        "job_name": f"podMonitor/{namespace}/{name}/0",
        "honor_labels": endpoint.get("honorLabels", False),
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "static_configs": list(found),
        "relabel_configs": relabeled,
    }


def targets(
    workload: Document,
    name: str,
    node: str,
    ports: Mapping[str, int],
    phase: str = "Running",
) -> list[Document]:
    """What Prometheus' pod discovery finds in a pod of the workload on this machine.

    A target for each port of each container, those of init containers included
    (discovery/kubernetes/pod.go, buildPod); Debian's Prometheus is built without it.

    Args:
        ports: container -> the port that it really has here.
    """
    template, meta = workload["spec"]["template"], "__meta_kubernetes_"
    labels = template["metadata"]["labels"].items()
    of_the_pod = {
        f"{meta}namespace": workload["metadata"]["namespace"],
        f"{meta}pod_name": name,
        f"{meta}pod_node_name": node,
        f"{meta}pod_phase": phase,
        **{f"{meta}pod_label_{plain(key)}": value for key, value in labels},
        **{f"{meta}pod_labelpresent_{plain(key)}": "true" for key, _ in labels},
    }
    spec = template["spec"]
    return [
        {
            "targets": [f"127.0.0.1:{ports.get(each['name'], port['containerPort'])}"],
            "labels": {
                **of_the_pod,
                f"{meta}pod_container_name": each["name"],
                f"{meta}pod_container_init": str(
                    each in spec["initContainers"]
                ).lower(),
                f"{meta}pod_container_port_name": port["name"],
            },
        }
        for each in (*spec["containers"], *spec["initContainers"])
        for port in each["ports"]
    ]


def _keep(labels: list[str], pattern: str) -> Document:
    return {"action": "keep", "source_labels": labels, "regex": pattern}


def plain(label: str) -> str:
    """A Kubernetes label's name as part of Prometheus' names."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", label)
