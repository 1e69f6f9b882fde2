from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.cases.adapter import Poll, assert_polls, points
from tests.cases.cases import content, covers, expected, table
from tests.cases.conftest import Serve, Watching
from tests.cases.servers import Answer, Server, always, page
from tests.cases.watch import Step, Watch

SEQUENCES = (
    "04-series-appears-later",
    "06-running-gauge-stuck",
    "15-sleeping-engine",
    "17-counter-reset",
    "39-low-load-is-not-low-capacity",
    "40-engine-starts-late",
    "42-wall-clock-back",
)
METHODS = ("curve", "rate")

SLOW = [Answer(hangs=True), Answer(body=b"#" * 1000, dribbles=True)]

either_method = pytest.mark.parametrize("method", METHODS)


@dataclass
class Run:
    """A case's steps, played."""

    polls: Sequence[Poll]
    watch: Watch
    server: Server
    interval: float


Play = Callable[..., Run]


@pytest.fixture
def play(serve: Serve, watching: Watching) -> Play:
    """Runs the agent's loop over the steps of a case that have a page or an error."""

    def run(case: str, **settings: str) -> Run:
        steps = [s for s in table(case, "steps.json") if "page" in s or "error" in s]
        server = serve(always(page(b"")), listening=False)
        interval = steps[1]["mono"] - steps[0]["mono"]
        watch = watching(server.url, poll_interval=f"{interval}s", **settings)
        listening = False

        def prepare(step: Step) -> None:
            nonlocal listening
            if "page" not in step:
                assert step["error"] == "refused"
                return
            server.answer = always(page(content(case, step["page"])))
            if not listening:
                server.open()
            listening = True

        return Run(watch.play(steps, prepare), watch, server, interval)

    return run


@either_method
@covers(*SEQUENCES)
def test_polls(case: str, method: str, play: Play) -> None:
    run = play(case, estimator=method)

    assert_polls(expected(case)["polls"], run.polls)
    assert run.watch.is_well


@either_method
@covers("39-low-load-is-not-low-capacity")
def test_low_load_does_not_lower_the_capacity(
    case: str, method: str, play: Play
) -> None:
    rule = expected(case)["property"]
    polls = dict(enumerate(play(case, estimator=method).polls, start=1))
    busy = max(points(polls[5].readings))

    sound = {
        "no point": lambda found: not found,
        "the held estimate of poll 5": lambda found: set(found) == {busy},
    }
    wrong = {
        "an unmarked estimate below half of poll 5": lambda found: (
            min(found, default=busy) < busy / 2
        ),
    }
    for number in rule["for_polls"]:
        found = points(polls[number].readings)
        assert any(
            sound[text](found) for text in rule["accept_any_of"] if text in sound
        )
        assert not any(wrong[text](found) for text in rule["must_not"])


@covers("40-engine-starts-late")
def test_a_refused_connection_is_said_but_not_each_time(case: str, play: Play) -> None:
    watch = play(case).watch

    about = [line for line in watch.log if "refuse" in line]
    assert 1 <= len(about) <= expected(case)["log_lines_about_refused_max"]


@covers("42-wall-clock-back")
def test_only_the_monotonic_clock_counts(case: str, play: Play) -> None:
    run = play(case)

    durations = {poll.interval.duration for poll in run.polls if poll.interval}
    wrong = {
        "a sleep longer than the interval": max(run.watch.waits) > run.interval,
        "a negative argument to sleep": min(run.watch.waits) < 0,
    }
    elapsed, *others = expected(case)["must_not"]
    assert durations == {run.interval}
    assert float(elapsed.removeprefix("elapsed ")) not in durations
    assert not any(wrong[text] for text in others)
    walls = [reading.time for poll in run.polls for reading in poll.readings]
    assert walls[0] < run.watch.time.wall == walls[-1]


@covers("38-gcm-credentials-late")
def test_the_first_point_covers_the_time_since_the_baseline(
    case: str, play: Play
) -> None:
    """What is not about credentials: when the first point leaves, and of what."""
    words = expected(case)
    times = [step["mono"] for step in table(case, "steps.json") if "page" in step]

    run = play(case)

    first = next(i for i, poll in enumerate(run.polls) if points(poll.readings))
    interval = run.polls[first].interval
    assert times[first] == words["first_write_at_s"]
    assert interval is not None
    assert interval.departures == words["first_write_finished_delta"]
    assert run.watch.is_well == words["process_alive"]


@pytest.mark.parametrize("slowness", SLOW)
@covers("46-slow-metrics")
def test_a_slow_page(
    case: str, slowness: Answer, serve: Serve, watching: Watching
) -> None:
    """A page that takes longer than the limit; the limit is scaled down, not the case.

    A server that sends a byte now and then is slow as well: the limit is for the whole.
    """
    words, exchange = expected(case), table(case, "exchange.json")
    steps = table(case, "steps.json")
    server = serve(always(page(b"")))
    interval = f"{steps[1]['mono'] - steps[0]['mono']}s"
    unscaled = watching(server.url, poll_interval=interval).settings.scrape_limit
    watch = watching(server.url, poll_interval=interval, scrape_timeout="1s")
    began: list[float] = []

    def prepare(step: Step) -> None:
        server.settle()
        began.append(time.monotonic())
        now = exchange[steps.index(step)]
        if now["delay_s"] > unscaled:
            body = content(case, "poll-1.prom")
            server.answer = lambda _: Answer(
                body=body, hangs=slowness.hangs, dribbles=slowness.dribbles
            )
        else:
            server.answer = always(page(content(case, now["body_file"])))

    polls = watch.play(steps, prepare)

    ended = [*began[1:], time.monotonic()]
    for said, start, end in zip(words["polls"], began, ended, strict=True):
        longest = said.pop("max_seconds", unscaled)
        assert unscaled <= longest
        assert end - start < longest
    assert_polls(words["polls"], polls)
    assert server.most_at_once == words["concurrent_scrapes_max"]
    (encoding,) = {r.headers["accept-encoding"] for r in server.requests}
    assert encoding == words["request_headers"]["accept-encoding"].split()[0]
