"""Ratios against named peers, measured in one run: ``make bench``.

Each pair is timed in turn, so that a machine whose speed drifts drifts for both; the
median of the ratios is what counts.
"""

from __future__ import annotations

import statistics
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from sidecar import engines
from sidecar.engines.base import Engine
from sidecar.estimators.curve import CurveEstimator
from sidecar.exposition import Page
from sidecar.http_page import HttpPage
from sidecar.interval import Interval
from sidecar.sample import Sample
from sidecar.scrape import Scraper
from sidecar.simulator import PRESETS, SimulatedWorker
from sidecar.simulator import Engine as SimulatedEngine
from sidecar.target import parse
from tests.accuracy.runs import last
from tests.accuracy.simulated import Work, everything, requests, tokens

PAGE = Path(__file__).parent / "fixtures/metrics/vllm-0.32.0-after-sweep.txt"
ROUNDS = 15


def seconds(call: Callable[[], object], times: int) -> float:
    """Mean time of one call."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times


def compare(
    name: str, ours: Callable[[], object], peer: str, theirs: Callable[[], object]
) -> None:
    """Print both medians and the median ratio."""
    pairs = [(seconds(ours, 100), seconds(theirs, 5)) for _ in range(ROUNDS)]
    ratio = statistics.median(b / a for a, b in pairs)
    us, them = (1e6 * statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name:44} {us:9.0f} us  {peer:34} {them:9.0f} us  {ratio:6.1f} times")


def read(text: str, dialects: tuple[Engine, ...]) -> Sample:
    """What a poll does with a page."""
    page = Page(text)
    engine, prefix = engines.identify(page, dialects)
    return engine.read(page, prefix, 0.0)


def parsing() -> None:
    """The needed families of a real page, against a parser of all families."""
    text = PAGE.read_text("utf-8")
    dialects = engines.load("auto")
    compare(
        f"read a page of {len(text) // 1000} kB",
        lambda: read(text, dialects),
        "prometheus_client's parser",
        lambda: list(text_string_to_metric_families(text)),
    )


def polling() -> None:
    """A poll over HTTP with the name filter, against fetching and parsing it all."""
    worker = SimulatedWorker(SimulatedEngine(PRESETS["demo"].shape, "demo/model"))
    with worker:
        http = HttpPage(parse(f"127.0.0.1:{worker.port}"), limit=5.0)
        scraper = Scraper(http, engines.load("auto"))

        def fetch() -> object:
            with urllib.request.urlopen(f"{worker.url}") as answer:
                return list(text_string_to_metric_families(answer.read().decode()))

        compare("poll a simulated worker", scraper.read, "urllib, that parser", fetch)
        http.close()


def learning() -> None:
    """An hour of intervals through the estimator, by what the page has."""
    work = Work("dense-8b", 0.05, 0.3, 60, 1)
    found = list(work.intervals())
    for name, strip in (
        ("tokens timed by the engine", everything),
        ("tokens counted", tokens),
        ("requests counted", requests),
    ):
        hour = [strip(each) for each in found]
        rounds = [seconds(lambda h=hour: learn(h), 1) / len(hour) for _ in range(5)]  # type: ignore[misc]
        cost = f"{1e6 * statistics.median(rounds):9.0f} us  of 5 s"
        print(f"{'learn from an interval, ' + name:44} {cost}")


def learn(intervals: list[Interval]) -> object:
    """What is known after them."""
    return last(CurveEstimator(256.0), intervals)


if __name__ == "__main__":
    parsing()
    polling()
    learning()
