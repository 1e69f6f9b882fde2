"""Two pools as a cluster would run them: real sidecars, gateway, Prometheus and rules.

Of two pods of one model one is scraped as the PodMonitor says, the other by the job for
a Prometheus without operator; the third, of another model, pushes. The sidecars have
the environment that the manifests give them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.packaging.documents import KUBERNETES, PROMETHEUS, yaml_blocks
from tests.packaging.podmonitor import plain, scrape_config, targets
from tests.packaging.rendering import (
    Document,
    built,
    environ,
    exported,
    laid_out,
    only,
    pasted,
    sidecar,
)
from tests.process.daemon import Daemon
from tests.process.debian import Prometheus, Pushgateway
from tests.process.sockets import reserved_port
from tests.process.workers import SHAPE, fast_worker

MODEL, PUSHED_MODEL = "Qwen/Qwen2.5-7B-Instruct", "test/pushed-1B"
TAG, PUSHED_TAG = "Qwen_Qwen2_5_7B_Instruct", "test_pushed_1B"
MONITORED, PLAIN, PUSHED = "vllm-a", "vllm-b", "worker-0"
SCRAPED = (MONITORED, PLAIN)
LONGEST = 5
"""Seconds for which a reading counts here; two minutes are long for a test."""


def hastened(promql: str) -> str:
    """The same with readings that grow old sooner."""
    return promql.replace("< 120", f"< {LONGEST}")


@dataclass
class Cluster:
    """What runs; the daemons by the names of their pods."""

    prometheus: Prometheus
    gateway: Pushgateway
    daemons: dict[str, Daemon]

    def vector(self, promql: str, at: float | None = None) -> list[Document]:
        """The samples of an instant query, now or at a time."""
        options = {} if at is None else {"time": f"{at:.3f}"}
        return self.prometheus.query(promql, **options)

    def number(self, promql: str, at: float | None = None) -> float | None:
        """The value of the only sample; None: there is none."""
        found = self.vector(promql, at)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def said(self, pod: str) -> dict[float, Document]:
        """Every reading of a sidecar, by its time, as its stdout sink writes it."""
        lines = self.daemons[pod].out.read_text().splitlines()
        return {line["time"]: line for line in map(json.loads, lines)}


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """Start it all, and end it."""
    with ExitStack() as stack:
        manifests = _manifests(directory)
        gateway = Pushgateway(stack.enter_context(reserved_port()), directory)
        stack.callback(gateway.kill)
        gateway.start()
        daemons: dict[str, Daemon] = {}
        found: dict[str, list[Document]] = {}
        for name in (*SCRAPED, PUSHED):
            workload = manifests[name]
            model = PUSHED_MODEL if name == PUSHED else MODEL
            worker = stack.enter_context(fast_worker(model))
            port = stack.enter_context(reserved_port())
            settings = {
                **environ(sidecar(workload), _fields(name)),
                "SIDECAR_METRICS_PORT": str(worker.port),
                "SIDECAR_STATE_FILE": str(directory / f"{name}.json"),
                "SIDECAR_LISTEN": f"127.0.0.1:{port}",
                "SIDECAR_SINKS": "prometheus,stdout",
            }
            if name == PUSHED:
                settings["SIDECAR_PUSHGATEWAY_URL"] = gateway.url
                settings["SIDECAR_SINKS"] += ",pushgateway"
            else:
                ports = {"capacity-sidecar": port}
                found[name] = [
                    target
                    for pod, phase in _phases(name).items()
                    for target in targets(
                        workload, pod, f"node-of-{name}", ports, phase
                    )
                ]
            daemons[name] = Daemon(directory, port, settings)
            stack.callback(daemons[name].close)
        jobs: list[dict[str, Any]] = [
            scrape_config(manifests["monitor"], found[MONITORED], "300ms"),
            _plain_job(found[PLAIN]),
            {
                "job_name": "pushgateway",
                "honor_labels": True,
                "static_configs": [{"targets": [gateway.address]}],
            },
        ]
        rules = directory / "rules.yaml"
        text = (PROMETHEUS / "rules.yaml").read_text("utf-8")
        assert text.count("interval: 15s") == 1
        # Not in step with the scrapes, or all rules might run while one is under way.
        rules.write_text(hastened(text).replace("interval: 15s", "interval: 310ms"))
        port = stack.enter_context(reserved_port())
        prometheus = Prometheus(port, directory, jobs, rules)
        stack.callback(prometheus.kill)
        prometheus.start()
        yield Cluster(prometheus, gateway, daemons)


def _manifests(directory: Path) -> dict[str, Document]:
    """The workloads by the names of their pods, and the PodMonitor."""
    page = KUBERNETES / "README.md"
    way = pasted(page, directory, **exported(page), WAY="keda")
    deployment = only("Deployment", way)
    kustomization = {
        "namespace": "llm",
        "components": [
            "../packaging/kubernetes/sidecar",
            "../packaging/kubernetes/pushgateway",
        ],
    }
    bare = json.loads(json.dumps(deployment))
    del bare["spec"]["template"]["spec"]["initContainers"]
    pushing = built(laid_out(directory, kustomization, bare))
    return {
        **dict.fromkeys(SCRAPED, deployment),
        PUSHED: only("Deployment", pushing),
        "monitor": only("PodMonitor", way),
    }


def _plain_job(found: list[Document]) -> Document:
    """The page's job, with what the discovery would find."""
    ((job,),) = yaml_blocks(PROMETHEUS / "README.md")
    (discovery,) = job.pop("kubernetes_sd_configs")
    ((name, value),) = (each["label"].split("=") for each in discovery["selectors"])
    meta = f"__meta_kubernetes_pod_label_{plain(name)}"
    chosen = [each for each in found if each["labels"][meta] == value]
    return {**job, "static_configs": chosen}


def _phases(pod: str) -> dict[str, str]:
    """It and what was there before: a pod that was evicted, and one that has ended."""
    return {pod: "Running", f"{pod}-out": "Failed", f"{pod}-over": "Succeeded"}


def _fields(pod: str) -> dict[str, str]:
    return {
        "metadata.name": pod,
        "metadata.namespace": "llm",
        "metadata.annotations['capacity-sidecar/max-concurrency']": str(
            SHAPE.max_num_seqs
        ),
        "spec.nodeName": f"node-of-{pod}",
    }
