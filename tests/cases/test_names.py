from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sidecar import environment, naming, tag
from sidecar.identity import Surroundings
from sidecar.metadata import MetadataServer as Metadata
from sidecar.reading import SIGNAL_PREFIX, Identity, Reading, Values
from sidecar.sinks.cloud_monitoring.series import series
from sidecar.states import State
from sidecar.target import local
from tests.cases.cases import covers, covers_parts, expected, table
from tests.cases.conftest import Serve, Watching
from tests.cases.servers import Answer, page
from tests.gcp.metadata_server import MetadataServer
from tests.gcp.metadata_values import gce, gke
from tests.gcp.series import SeriesKey, key_of

SETTINGS = environment.load({}).settings
OURS = re.compile(r"[A-Za-z0-9_]+")
"""DESIGN.md's alphabet is narrower than the case's: a tag ends a metric name."""


@covers("09-model-tags")
def test_tags_are_safe(case: str) -> None:
    rule = expected(case)["for_each"]
    names = table(case, "names.json")

    for name in names:
        made = tag.sanitize(name)
        assert OURS.fullmatch(made)
        assert re.search(rule["matches"], SIGNAL_PREFIX + made)
        assert len(made) <= rule["max_len"]
    same = tag.distinct(names) == tag.distinct(names[::-1])
    assert same == rule["deterministic"]
    assert max(map(len, names)) > rule["max_len"]


@covers("09-model-tags")
def test_two_models_never_share_a_series(case: str) -> None:
    """Workers of one process: their tags differ. Of two: their model names do."""
    for pair in expected(case)["distinct_pairs"]:
        workers = [(local(8000 + i, ""), model) for i, model in enumerate(pair)]
        together = naming.identities(workers, SETTINGS, "node-1")
        apart = [
            naming.identities([(local(8000, ""), model)], SETTINGS, "node-1")[0]
            for model in pair
        ]

        assert len({*tag.distinct(pair).values()}) == len(pair)
        assert len({identity.tag for identity in together}) == len(pair)
        assert len({identity.all_labels for identity in apart}) == len(pair)


@covers("09-model-tags")
def test_names_that_meet_in_one_tag_are_logged(
    case: str, serve: Serve, watching: Watching
) -> None:
    first, second = expected(case)["distinct_pairs"][0]
    watch = watching(*(serve(named(model)).url for model in (first, second)))

    for mono in (0, 5, 10):
        watch.tick(mono)

    for reading in watch.readings:
        assert said(watch.log, reading.identity.tag) == 1
    assert len(watch.readings) == 2


@covers_parts(["09-model-tags"], lambda case: table(case, "empty-names.json"))
def test_a_worker_without_a_name(
    case: str, part: str, serve: Serve, watching: Watching
) -> None:
    """It gets a fixed tag, and the log says so once."""
    accepted = expected(case)["empty"]["accept_any_of"]
    watch = watching(serve(named(part)).url)

    for mono in (0, 5, 10):
        watch.tick(mono)

    (reading,) = watch.readings
    assert reading.identity.tag == tag.UNNAMED
    assert said(watch.log, tag.UNNAMED) == 1
    assert "a fixed non-empty fallback tag, logged" in accepted


@covers_parts(
    ["35-gcm-two-writers"], lambda case: list(expected(case)["series_identity"])
)
def test_two_writers(case: str, part: str) -> None:
    """The labels tell writers apart, and find a restarted one again; our own do that
    alone, and so does the whole series in Cloud Monitoring."""
    words = expected(case)
    writers = table(case, "writers.json")[part]
    first, second = map(identity, writers)

    verdict = "equal" if first.all_labels == second.all_labels else "different"
    assert verdict == words["series_identity"][part]
    keys = [key for key, _ in map(in_cloud_monitoring, writers)]
    assert ("equal" if keys[0] == keys[1] else "different") == verdict
    labels = [*first.all_labels, *second.all_labels]
    labels += [pair for key in keys for pair in (*key[1], *key[3])]
    assert all(value for _, value in labels) == words["no_empty_label_values"]


def in_cloud_monitoring(writer: Mapping[str, Any]) -> tuple[SeriesKey, str]:
    """The series of a writer on Google's machines, and its resource type."""
    environ = {"NODE_NAME": writer.get("node", "")}
    values, hostname = gce(name="vm-1"), writer.get("host", "")
    if pod := writer.get("pod"):
        values, hostname = gke(), pod
        environ |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "n"}
    with MetadataServer(values) as server:
        metadata = Metadata({"GCE_METADATA_HOST": server.host})
        where = Surroundings(environ, hostname, metadata).resource("auto", {})
    reading = Reading(identity(writer), 1e9, Values(State.SERVING, capacity=1.0))
    (found,) = series(reading, 1e9, ["capacity"], "custom.googleapis.com", where)
    return key_of(found), where.type


def identity(writer: Mapping[str, Any]) -> Identity:
    """A pod's host name is its own."""
    hostname = writer.get("pod") or writer["host"]
    workers = [(local(writer["port"], ""), writer["model"])]
    (found,) = naming.identities(workers, SETTINGS, hostname)
    return found


def named(model: str) -> Any:
    """Answers with the page of a worker that serves a model of this name."""

    def answer(_: object) -> Answer:
        label = f'{{model_name="{model}"}}'
        lines = ["vllm:num_requests_running", "vllm:request_success_total"]
        return page("".join(f"{line}{label} 1\n" for line in lines).encode())

    return answer


def said(log: list[str], text: str) -> int:
    return sum(text in line for line in log)
