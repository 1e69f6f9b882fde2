"""The cases' words, said in ours: the only place that knows both.

Where the cases leave a choice open, DESIGN.md has made it:

- what feeds the estimate is ``finished_ok``; ``finished`` counts every departure
- a point is a capacity, as the signal or under its own name. What a stalled worker
  publishes (utilization, state) and a sleeping one (state) is not made of one
- a reset is a new baseline; it is told from the first one by what came before
- a failed read has no sample; what the page did have is read sample by sample
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sidecar import engines
from sidecar.engines.base import Engine
from sidecar.errors import (
    MalformedSample,
    MissingCounter,
    MissingGauge,
    NoSamples,
    NotExposition,
    PageError,
    ScrapeError,
    WrongEndpoint,
)
from sidecar.exposition import Page
from sidecar.interval import Interval, between
from sidecar.reading import SIGNAL_PREFIX, Reading, gauges
from sidecar.sample import Sample
from sidecar.states import State
from sidecar.worker import Worker

CAPACITY = "llm_worker_capacity"

_STATUSES: dict[type[ScrapeError], str] = {
    NoSamples: "no_samples",
    MissingCounter: "missing_counter",
    MissingGauge: "missing_gauge",
    WrongEndpoint: "wrong_endpoint",
    NotExposition: "not_prometheus",
    MalformedSample: "malformed",
    ScrapeError: "scrape_error",
}
_STATES = {
    State.IDLE: "idle",
    State.STALLED: "stalled",
    State.SLEEPING: "sleeping",
}
_NO_PORT = {
    "nothing found": "fallback",
    "switches the worker's page off": "disabled",
    "lets the system choose a port": "unknown_port",
}


def status(error: ScrapeError | None) -> str:
    """The word for how a read went."""
    return "ok" if error is None else _STATUSES[type(error)]


def port_word(reason: str) -> str:
    """The word for what discovery says of a variable that gives no port."""
    (word,) = [word for text, word in _NO_PORT.items() if text in reason]
    return word


def points(readings: Sequence[Reading]) -> list[float]:
    """The capacities that leave with the readings: the signal's, and under its name."""
    return [
        gauge.value
        for reading in readings
        for gauge in gauges(reading)
        if gauge.name == CAPACITY or gauge.name.startswith(SIGNAL_PREFIX)
    ]


def assert_publish(word: str, readings: Sequence[Reading]) -> None:
    """``yes``: a point must have left; ``no``: none may; ``either``."""
    allowed = {"yes": {True}, "no": {False}, "either": {True, False}}[word]
    assert bool(points(readings)) in allowed, readings


@dataclass(frozen=True)
class Read:
    """A page, read by itself, without a worker behind it.

    Attributes:
        dialect: the engine and the prefix it uses; None: the page speaks none.
    """

    body: str
    page: Page | None = None
    dialect: tuple[Engine, str] | None = None
    sample: Sample | None = None
    error: PageError | None = None

    @classmethod
    def of(cls, body: str) -> Read:
        """Read the page as far as it goes."""
        page = dialect = None
        try:
            page = Page(body)
            engine, prefix = dialect = engines.identify(page, engines.load("auto"))
            return cls(body, page, dialect, engine.read(page, prefix, at=0.0))
        except PageError as error:
            return cls(body, page, dialect, error=error)

    def total(self, which: str) -> float | None:
        """A needed number, also of a page that lacks the other one."""
        if self.sample:
            numbers = {
                "finished": self.sample.finished_total,
                "running": self.sample.running,
            }
            return numbers[which]
        if self.page is None or self.dialect is None:
            return None
        engine, prefix = self.dialect
        found = [
            value
            for name in getattr(engine, which)
            for _, value in self.page.samples(prefix + name)
        ]
        return sum(found) if found else None

    def engine_alone(self, label: str) -> dict[str, float | None]:
        """What the page says of one data-parallel engine."""
        own = f'engine="{label}"'
        lines = self.body.splitlines()
        alone = Read.of("\n".join(x for x in lines if own in x or x[0] == "#"))
        return {which: alone.total(which) for which in ("finished", "running")}

    @property
    def ok(self) -> Sample:
        """The sample, which must be there."""
        assert self.sample is not None, self.error
        return self.sample


def _labels(read: Read, name: str) -> list[str]:
    values = (dict(labels).get(name) for labels in read.ok.finished)
    return [value for value in dict.fromkeys(values) if value is not None]


def _by_reason(read: Read) -> dict[str, float]:
    return {
        reason: sum(
            value
            for labels, value in read.ok.finished.items()
            if ("finished_reason", reason) in labels
        )
        for reason in _labels(read, "finished_reason")
    }


_PAGE_WORDS: dict[str, Callable[[Read], object]] = {
    "status": lambda read: status(read.error),
    "engine": lambda read: read.dialect and read.dialect[0].name,
    "model": lambda read: read.ok.model_name,
    "finished": lambda read: read.total("finished"),
    "finished_ok": lambda read: read.ok.completed_total,
    "finished_by_reason": _by_reason,
    "running": lambda read: read.total("running"),
    "kv_cache_usage": lambda read: read.ok.kv_usage,
    "by_engine": lambda read: {
        label: read.engine_alone(label) for label in _labels(read, "engine")
    },
    "parse_errors": lambda read: read.page and read.page.malformed_lines(),
}


def assert_page(expected: Mapping[str, Any], read: Read) -> None:
    """Every word that the case says of a page; an unknown word is an error."""
    found = {word: _PAGE_WORDS[word](read) for word in expected}
    assert found == expected, read.error


@dataclass(frozen=True)
class Poll:
    """One poll of one worker by the agent.

    Attributes:
        earlier: the last good sample before it.
        sample: of this poll; None: it failed.
        interval: what was fed to the estimator; where nothing was (the worker stalls or
            sleeps), what lies between the samples.
        readings: what left for the sinks.
    """

    error: ScrapeError | None
    earlier: Sample | None
    sample: Sample | None
    interval: Interval | None
    state: State
    readings: Sequence[Reading]

    @classmethod
    def of(
        cls,
        worker: Worker,
        earlier: Sample | None,
        fed: Interval | None,
        readings: Sequence[Reading],
    ) -> Poll:
        """The poll that the worker just made, with its readings that left after it."""
        sample = None if worker.error else worker.sample
        return cls(
            error=worker.error,
            earlier=earlier,
            sample=sample,
            interval=fed or (between(earlier, sample) if earlier and sample else None),
            state=worker.state,
            readings=readings,
        )

    @property
    def flags(self) -> set[str]:
        """What the case calls the poll."""
        if self.sample is None:
            return set()
        flags = {_STATES[self.state]} if self.state in _STATES else set()
        if self.earlier is None:
            flags.add("baseline")
        elif self.state is State.BASELINE:
            flags.add("gap" if self.interval else "reset")
        return flags


def _finished_delta(poll: Poll) -> float | None:
    return poll.interval.departures if poll.interval else None


def _elapsed(poll: Poll) -> float | None:
    return poll.interval.duration if poll.interval else None


_POLL_WORDS: dict[str, Callable[[Poll], object]] = {
    "status": lambda poll: status(poll.error),
    "reason": lambda poll: poll.error and poll.error.reason,
    "finished": lambda poll: poll.sample and poll.sample.finished_total,
    "running": lambda poll: poll.sample and poll.sample.running,
    "finished_delta": _finished_delta,
    "elapsed": _elapsed,
    "elapsed_s": _elapsed,
}


def assert_polls(expected: Sequence[Mapping[str, Any]], polls: Sequence[Poll]) -> None:
    """Every poll as the case says, in order."""
    assert [said["poll"] for said in expected] == [*range(1, len(polls) + 1)]
    for said, poll in zip(expected, polls, strict=True):
        assert_poll(said, poll)


def assert_poll(expected: Mapping[str, Any], poll: Poll) -> None:
    """Every word that the case says of a poll; an unknown word is an error."""
    said = dict(expected)
    said.pop("poll", None)
    assert poll.flags == set(said.pop("flags", []))
    assert_publish(said.pop("publish", "either"), poll.readings)
    if alternatives := said.pop("accept_any_of", []):
        assert any(_holds(each, poll) for each in alternatives), poll
    for text in said.pop("must_not", []):
        word, value = text.split()
        assert _POLL_WORDS[word](poll) != float(value)
    found = {word: _POLL_WORDS[word](poll) for word in said}
    assert found == said, poll.error


def _holds(alternative: Mapping[str, Any], poll: Poll) -> bool:
    said = dict(alternative)
    try:
        assert_publish(said.pop("publish", "either"), poll.readings)
    except AssertionError:
        return False
    return all(_POLL_WORDS[word](poll) == value for word, value in said.items())
