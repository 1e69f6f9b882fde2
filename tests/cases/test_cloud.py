"""The cases about Cloud Monitoring: the whole agent, writing to the test service."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from google.auth.exceptions import DefaultCredentialsError

from sidecar.sinks.cloud_monitoring.client import Client
from sidecar.sinks.cloud_monitoring.sink import CloudMonitoringSink
from tests.cases.cases import content, covers, expected, table
from tests.cases.conftest import Serve, Watching
from tests.cases.servers import Server, page, worker_page
from tests.cases.watch import Watch
from tests.gcp.metric_service import MetricService

RESOURCE = {"location": "global", "namespace": "n", "job": "j", "task_id": "t"}
EVERY = 15.0
"""Seconds between two polls, and two writes."""


class Cloud:
    """An agent with the sink, and the service that it writes to."""

    def __init__(
        self, watching: Watching, worker: Server, stack: ExitStack, **settings: Any
    ) -> None:
        self.service = stack.enter_context(
            MetricService("a-project", lambda: self.watch.time.wall)
        )
        self.sink: CloudMonitoringSink
        sink_settings = {
            "project": "a-project",
            "endpoint": self.service.endpoint,
            "insecure": True,
            "interval": EVERY,
            "metrics": ("running",),
            "resource_type": "generic_task",
            "resource_labels": RESOURCE,
            **settings.pop("cloud_monitoring", {}),
        }
        self.watch: Watch = watching(
            worker.url,
            sink=self._sink,
            cloud_monitoring=sink_settings,
            **{"poll_interval": f"{EVERY:g}s", **settings},
        )
        self.start = self.watch.time.wall

    @property
    def ends(self) -> list[float]:
        """End times that were accepted, in the case's time, seconds."""
        (points,) = self.service.accepted.values() or [[]]
        return [point.end_time - self.start for point in points]

    @property
    def sent(self) -> list[tuple[float, int]]:
        """Of each request: the end time, and how many series it holds."""
        return [
            (
                each.time_series[0].points[0].interval.end_time.timestamp()  # type: ignore[attr-defined]
                - self.start,
                len(each.time_series),
            )
            for each in self.service.requests
        ]

    def counted(self, name: str, **labels: str) -> float:
        """One of the sidecar's own counters."""
        labels = {"sink": "cloud_monitoring", **labels}
        value = self.watch.telemetry.registry.get_sample_value(name, labels)
        return value or 0.0

    def _sink(self, settings: Any) -> CloudMonitoringSink:
        self.sink = CloudMonitoringSink(
            settings.cloud_monitoring,
            {},
            "node-1",
            clock=lambda: self.watch.time.mono,
            sleep=lambda _: None,
            jitter=lambda: 0.5,
        )
        return self.sink


Clouds = Callable[..., Cloud]


@pytest.fixture
def cloud(watching: Watching, serve: Serve) -> Iterator[Clouds]:
    """Makes agents that write to a service of their own."""
    with ExitStack() as stack:

        def make(worker: Server | None = None, **settings: Any) -> Cloud:
            worker = worker or serve(lambda _: worker_page(10))
            return Cloud(watching, worker, stack, **settings)

        yield make


@covers("34-gcm-write-period")
def test_polls_that_are_faster_than_writes_may_be(
    case: str, serve: Serve, cloud: Clouds
) -> None:
    accepted = " ".join(expected(case)["accept_any_of"])
    assert "at least 5 s apart per time series: at most 3 writes in 12 s" in accepted
    steps = table(case, "steps.json")
    worker = serve(lambda _: page(content(case, "poll.prom")))
    one = cloud(worker, poll_interval="1s", cloud_monitoring={"interval": 5.0})

    for step in steps:
        one.watch.tick(step["mono"])

    assert one.ends == [1, 6, 11]
    assert len(one.service.requests) == 3


@covers("34-gcm-write-period")
def test_a_write_that_comes_too_soon(case: str, cloud: Clouds) -> None:
    answer = expected(case)["on_too_frequent_answer"]
    assert answer["action"] == "drop the point, no retry, count it"
    one = cloud()

    one.watch.tick(0)
    one.watch.tick(15)
    one.service.fail(
        grpc.StatusCode[answer["grpc"]],
        "One or more points were written more frequently than the maximum sampling "
        "period configured for the metric.",
    )
    one.watch.tick(30)
    one.watch.tick(45)

    assert [end for end, _ in one.sent] == [15, 30, 45]
    assert one.ends == [15, 45]
    assert one.counted("sidecar_dropped_total", reason="two_writers") == 1
    assert one.watch.is_well == answer["process_alive"]


@covers("36-gcm-order-after-retry")
def test_end_times_only_rise(case: str, cloud: Clouds) -> None:
    words = expected(case)
    exchange = table(case, "exchange.json")
    one = cloud()
    one.watch.tick(exchange[0]["end_time"] - EVERY)
    for each in exchange:
        if each["status"] == 503:
            one.service.fail(grpc.StatusCode.UNAVAILABLE)
        one.watch.tick(each["end_time"])

    # The case counts from zero, and so do its ends.
    assert one.ends in words["accepted_end_times_any_of"]
    assert all(count == 1 for _, count in one.sent)
    assert [end for end, _ in one.sent] == sorted(end for end, _ in one.sent)


ONCE_MORE = (
    "retry before the next point is due",
    "refresh credentials, then retry once",
)
BACK_OFF = (
    "drop, back off, keep polling",
    "back off with jitter, then newest point only",
)


@covers("37-gcm-status-table")
def test_what_is_done_after_each_answer(
    case: str, cloud: Clouds, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = expected(case)
    actions = {row["http"]: row["action"] for row in words["rows"]}
    opened: list[Client] = []
    really_open = Client._open

    def note(client: Client) -> grpc.Channel:
        opened.append(client)
        return really_open(client)

    monkeypatch.setattr(Client, "_open", note)
    for answer in table(case, "answers.json"):
        action = actions[answer["http"]]
        one = cloud()
        opened.clear()
        one.service.fail(grpc.StatusCode[answer["grpc"]], "an answer", times=None)
        one.watch.tick(0)
        polls = [one.watch.tick(15 * number) for number in (1, 2, 3, 4)]

        # Scraping goes on, every failure is counted, and said no more than it may be.
        always = words["always"]
        assert (
            all(poll.error is None for (poll,) in polls) == always["scraping_continues"]
        )
        assert one.watch.is_well == always["process_alive"]
        failures = one.counted("sidecar_publishes_total", outcome="failed")
        assert (failures == len(polls)) == always["failures_counted"]
        lines = [line for line in one.watch.log if "cannot publish" in line]
        assert 1 <= len(lines) <= always["identical_log_lines_per_minute_max"]
        if answer["grpc"] == "PERMISSION_DENIED":
            assert all(
                text in lines[0] for text in words["permission_denied_log_contains"]
            )

        sent = [end for end, _ in one.sent]
        tries = 2 if action in ONCE_MORE else 1
        assert sent[:tries] == [15] * tries, action
        assert sent.count(15) == tries
        if action in BACK_OFF:
            assert len(sent) < len(polls), action
        else:
            assert sent == [end for end in (15, 30, 45, 60) for _ in range(tries)]
        if action.startswith("refresh credentials"):
            assert len(opened) == 2 * len(polls)

        # Put right, the newest point is written, and no other.
        one.service.recover()
        before = len(one.service.requests)
        for number in range(5, 20):
            one.watch.tick(15 * number)
        (first, *_), later = one.ends, [end for end, _ in one.sent[before:]]
        assert later == one.ends
        assert first >= 75, action


@covers("38-gcm-credentials-late")
def test_credentials_that_come_late(case: str, cloud: Clouds) -> None:
    """They are looked for at each write, and never at the start."""
    words = expected(case)
    one = cloud()
    looked: list[float] = []
    client = one.sink._client
    really_open = client._open

    def late() -> grpc.Channel:
        looked.append(one.watch.time.mono)
        if one.watch.time.mono < 50:
            raise DefaultCredentialsError("not found")  # type: ignore[no-untyped-call]
        return really_open()

    client._open = late  # type: ignore[method-assign]
    for number in range(6):
        one.watch.tick(15 * number)

    assert looked == [15, 30, 45, 60]
    spacing = max(b - a for a, b in itertools.pairwise(looked))
    assert spacing <= words["credential_attempt_spacing_max_s"]
    assert one.ends == [60, 75]
    assert one.counted("sidecar_dropped_total", reason="credentials") == 3
    assert one.watch.is_well == words["process_alive"]
