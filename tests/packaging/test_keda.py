"""That packaging/kubernetes/keda asks for the right pool, and as the HPA would."""

from __future__ import annotations

import re
from pathlib import Path

from sidecar.tag import sanitize
from tests.packaging.documents import KUBERNETES, documents
from tests.packaging.rendering import exported, only, pasted

README = KUBERNETES / "README.md"


class TestKeda:
    def test_the_page_s_query_is_of_the_page_s_pool(self, tmp_path: Path) -> None:
        named = {**exported(README), "WAY": "keda", "NAMESPACE": "chat", "TAG": "a_b"}
        named |= {"MONITORING": "watch"}

        scaled = only("ScaledObject", pasted(README, tmp_path, **named))

        (trigger,) = scaled["spec"]["triggers"]
        told = trigger["metadata"]
        pool = '{namespace="chat",tag="a_b"}'
        assert told["query"] == f"sum(llm_pool:utilization:sum{pool})"
        assert told["serverAddress"] == "http://prometheus-operated.watch.svc:9090"

    def test_without_an_answer_the_pool_stays(self) -> None:
        (scaled,) = documents(KUBERNETES / "keda" / "scaledobject.yaml")
        (trigger,) = scaled["spec"]["triggers"]

        assert trigger["metadata"]["ignoreNullValues"] == "false"
        assert "fallback" not in scaled["spec"]
        # Value multiplies by the replicas that there are, those loading included.
        assert trigger["metricType"] == "AverageValue"

    def test_the_page_s_pool_is_the_sample_s(self) -> None:
        (deployment,) = documents(KUBERNETES / "sample" / "deployment.yaml")
        (worker,) = deployment["spec"]["template"]["spec"]["containers"]
        (model,) = (a[8:] for a in worker["args"] if a.startswith("--model="))

        assert exported(README)["TAG"] == sanitize(model)

    def test_without_the_page_s_patch_no_pool_is_asked_for(self) -> None:
        """A query that is forgotten must be an error, not another pool's load."""
        (scaled,) = documents(KUBERNETES / "keda" / "scaledobject.yaml")
        (trigger,) = scaled["spec"]["triggers"]

        (pool,) = re.findall(r"{(.*)}", trigger["metadata"]["query"])
        named = dict(re.findall(r'(\w+)="([^"]*)"', pool))
        assert set(named) == {"namespace", "tag"}
        # A tag has _ where the model's name has something else, and so has this not.
        assert set(named.values()) == {"SET-ME"}
        assert sanitize(named["tag"]) != named["tag"]

    def test_one_target_for_all_ways(self) -> None:
        """A number that somebody changes in one place counts in one place."""
        (hpa,) = documents(KUBERNETES / "hpa" / "hpa.yaml")
        (scaled,) = documents(KUBERNETES / "keda" / "scaledobject.yaml")
        (metric,) = hpa["spec"]["metrics"]
        (trigger,) = scaled["spec"]["triggers"]
        advanced = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]

        milli = float(trigger["metadata"]["threshold"]) * 1000
        assert metric["pods"]["target"]["averageValue"] == f"{milli:.0f}m"
        # Where there are two workers in a pod.
        page = README.read_text("utf-8")
        assert f"`averageValue: {2 * milli:.0f}m`" in page
        assert f'`threshold: "{2 * milli / 1000:g}"`' in page
        assert advanced["behavior"] == hpa["spec"]["behavior"]
        assert scaled["spec"]["minReplicaCount"] == hpa["spec"]["minReplicas"] == 1
        assert scaled["spec"]["maxReplicaCount"] == hpa["spec"]["maxReplicas"]
