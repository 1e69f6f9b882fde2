"""Rules, autoscalers' queries and dashboard against a real Prometheus."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging import adapter
from tests.packaging.cluster import (
    MODEL,
    MONITORED,
    PLAIN,
    PUSHED,
    PUSHED_MODEL,
    PUSHED_TAG,
    SCRAPED,
    TAG,
    Cluster,
    cluster,
    hastened,
)
from tests.packaging.documents import DASHBOARD, KUBERNETES, PROMETHEUS, documents
from tests.packaging.rendering import exported, objects, only, pasted
from tests.process.waiting import until
from tests.process.web import fetch_json

pytestmark = pytest.mark.process

PODS = {TAG: SCRAPED, PUSHED_TAG: (PUSHED,)}
SUMS = {
    "llm_pool:demand:sum": "llm_worker_demand",
    "llm_pool:throughput:sum": "llm_worker_throughput",
    "llm_pool:capacity:sum": "llm_worker_capacity",
    "llm_pool:waiting:sum": "llm_worker_waiting",
    "llm_pool:utilization:sum": "llm_worker_utilization",
}
SETTLED = 0.05
"""Seconds that a scrape may take to be stored, under a time before that."""

RULES = documents(PROMETHEUS / "rules.yaml")[0]["groups"][0]["rules"]
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both pools, with an estimate of every worker in Prometheus."""
    with cluster(tmp_path_factory.mktemp("cluster")) as pools:
        until(
            lambda: (
                len(pools.vector("llm_pool:utilization:avg > 0")) == 2
                and pools.vector(f'llm_pool:workers:count{{tag="{TAG}"}} == 2')
                and len(pools.vector("llm_worker_utilization")) == 3
            ),
            "both pools are recorded, with all workers",
            within=30.0,
        )
        yield pools


def total(pools: Cluster, name: str, tag: str, at: float) -> float | None:
    """A number of the pool's sidecars, added up, as Prometheus had them at the time.

    None: a scrape was under way, or not all had been scraped.
    """
    numbers: list[float] = []
    for pod in PODS[tag]:
        when = f'llm_worker_reading_timestamp_seconds{{worker="{pod}"}}'
        taken = pools.number(when, at)
        if taken is None or taken != pools.number(when, at - SETTLED):
            return None
        numbers.append(pools.said(pod)[taken][name])
    return sum(numbers)


class TestLabels:
    @pytest.mark.parametrize(
        ("pod", "added"),
        [
            (MONITORED, {"container": "capacity-sidecar", "endpoint": "sidecar"}),
            (PLAIN, {"job": "pods/capacity-sidecar"}),
            (PUSHED, {"tag": PUSHED_TAG, "model_name": PUSHED_MODEL}),
        ],
    )
    def test_a_series_says_what_it_is_of_on_every_way(
        self, pools: Cluster, pod: str, added: dict[str, str]
    ) -> None:
        (found,) = pools.vector(f'llm_worker_capacity{{worker="{pod}"}}')

        labels = found["metric"]
        assert ("instance" in labels) == (pod != PUSHED)
        labels.pop("instance", None)
        assert labels == {
            "__name__": "llm_worker_capacity",
            "job": "llm/capacity-sidecar",
            "namespace": "llm",
            "pod": pod,
            "node": f"node-of-{pod}",
            "worker": pod,
            "tag": TAG,
            "model_name": MODEL,
            **added,
        }

    def test_of_a_pod_only_the_sidecar_is_scraped(self, pools: Cluster) -> None:
        """Its port is an init container's; the worker has one as well."""
        found = [each["metric"] for each in pools.vector('up{namespace="llm"}')]

        assert sorted(each["pod"] for each in found) == sorted(SCRAPED)
        alert = next(
            rule for rule in RULES if rule.get("alert") == "CapacitySidecarDown"
        )
        assert len(pools.vector(alert["expr"].replace("== 0", "== 1"))) == len(SCRAPED)


class TestRecorded:
    @pytest.mark.parametrize("tag", PODS)
    @pytest.mark.parametrize("record", SUMS)
    def test_it_is_what_the_sidecars_say(
        self, pools: Cluster, record: str, tag: str
    ) -> None:
        query = f'{record}{{tag="{tag}"}}[20s]'

        def compared() -> int:
            (series,) = pools.vector(query)
            points = [(at, float(text)) for at, text in series["values"]]
            totals = [(total(pools, SUMS[record], tag, at), v) for at, v in points]
            known = [(said, value) for said, value in totals if said is not None]
            assert all(value == pytest.approx(said) for said, value in known)
            return len(known)

        until(lambda: compared() >= 3, "three of them can be compared")

    def test_a_pool_is_of_one_namespace_and_model(self, pools: Cluster) -> None:
        found = pools.vector("llm_pool:workers:count")

        counted = {each["metric"]["tag"]: each["value"][1] for each in found}
        assert counted == {TAG: "2", PUSHED_TAG: "1"}
        assert {each["metric"]["namespace"] for each in found} == {"llm"}


class TestQueries:
    def test_keda_gets_the_load_of_its_pool(
        self, pools: Cluster, tmp_path: Path
    ) -> None:
        page = KUBERNETES / "README.md"
        applied = pasted(page, tmp_path, **exported(page), WAY="keda")
        (trigger,) = only("ScaledObject", applied)["spec"]["triggers"]

        load = pools.number(trigger["metadata"]["query"])

        assert load is not None
        assert 0 < load < 2

    def test_prometheus_adapter_gets_each_pod_s_utilization(
        self, pools: Cluster
    ) -> None:
        pods = [*SCRAPED, PUSHED]
        listed = fetch_json(
            f"{pools.prometheus.url}/api/v1/series",
            **{"match[]": adapter.rule()["seriesQuery"]},
        )["data"]

        answered = pools.vector(hastened(adapter.query(pods)))

        resources = adapter.rule()["resources"]["overrides"]
        assert all(set(resources) <= set(each) for each in listed)
        assert sorted(each["metric"]["pod"] for each in answered) == sorted(pods)
        assert all(0 < float(each["value"][1]) < 2 for each in answered)


class TestDashboard:
    def test_it_asks_the_data_source_that_somebody_chooses(self) -> None:
        sources = [node for name, node in objects(BOARD) if name == "datasource"]

        assert sources
        assert all(each["uid"] == "${datasource}" for each in sources)

    @pytest.mark.parametrize(
        ("title", "promql"),
        [
            pytest.param(
                panel["title"], each["expr"], id=f"{panel['id']}-{each['refId']}"
            )
            for panel in BOARD["panels"]
            for each in panel.get("targets", ())
        ],
    )
    def test_every_panel_has_data(
        self, pools: Cluster, title: str, promql: str
    ) -> None:
        assert pools.vector(_asked(promql)), title

    def test_the_choices_are_the_models_and_the_workers(self, pools: Cluster) -> None:
        variables = {each["name"]: each for each in BOARD["templating"]["list"]}
        found = {}
        for name in ("tag", "worker"):
            query = variables[name]["query"]["query"]
            matcher = query.removeprefix("label_values(").rpartition(",")[0]
            url = f"{pools.prometheus.url}/api/v1/label/{name}/values"
            asked = matcher.replace("$tag", TAG)
            found[name] = fetch_json(url, **{"match[]": asked})["data"]

        assert found["tag"] == sorted(PODS)
        assert found["worker"] == sorted(SCRAPED)

    def test_workers_of_one_name_in_two_namespaces_are_two(self) -> None:
        """Grouped as the rules do; the cluster is in few setups, and in no legend."""
        panels = (panel.get("targets", ()) for panel in BOARD["panels"])
        targets = [each for targets in panels for each in targets]
        of_workers = [each for each in targets if "{{worker}}" in each["legendFormat"]]
        grouped = [each["expr"] for each in targets if ", worker" in each["expr"]]

        assert of_workers
        assert all("(cluster, namespace, tag, worker" in each for each in grouped)
        for each in of_workers:
            assert each["legendFormat"].startswith("{{namespace}} {{worker}}")
            assert each["expr"] in grouped

    def test_one_worker_can_be_looked_at(self, pools: Cluster) -> None:
        (panel,) = (each for each in BOARD["panels"] if each["title"] == "Utilization")
        promql = panel["targets"][0]["expr"]

        found = pools.vector(_asked(promql, worker=SCRAPED[0]))

        assert [each["metric"]["worker"] for each in found] == [SCRAPED[0]]


class TestKilled:
    """Last, for nothing is left of the pools."""

    def test_a_sidecar_that_is_scraped_is_forgotten_at_once(
        self, pools: Cluster
    ) -> None:
        pools.daemons[SCRAPED[0]].end(signal.SIGKILL)

        count = f'llm_pool:workers:count{{tag="{TAG}"}}'
        until(lambda: pools.number(count) == 1, "one worker is left")
        (left,) = pools.vector(f'llm_worker_utilization{{tag="{TAG}"}}')
        assert left["metric"]["pod"] == SCRAPED[1]
        assert pools.vector('up{namespace="llm"} == 0')

    def test_one_that_pushed_is_forgotten_though_the_gateway_keeps_it(
        self, pools: Cluster
    ) -> None:
        pools.daemons[PUSHED].end(signal.SIGKILL)

        pool = f'{{__name__=~"llm_pool:.*",tag="{PUSHED_TAG}"}}'
        until(lambda: not pools.vector(pool), "nothing is recorded of it")
        assert pools.vector(f'llm_worker_utilization{{tag="{PUSHED_TAG}"}}')
        assert pools.vector(hastened(adapter.query([PUSHED]))) == []
        alerts = 'ALERTS{alertname="LLMPoolUnseen"}'
        until(lambda: pools.vector(alerts), "somebody is to be told")
        (pending,) = pools.vector(alerts)
        assert pending["metric"]["tag"] == PUSHED_TAG


def _asked(promql: str, worker: str = ".*") -> str:
    """A panel's query, with the variables that Grafana puts in."""
    chosen = {"$tag": ".*", "$worker": worker, "$__rate_interval": "5s"}
    for name, value in chosen.items():
        promql = promql.replace(name, value)
    return hastened(promql)
