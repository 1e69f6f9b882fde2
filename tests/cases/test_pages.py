from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from sidecar import tag
from sidecar.interval import between
from tests.cases.adapter import Read, assert_page, assert_publish, status
from tests.cases.cases import content, covers, covers_parts, expected
from tests.cases.conftest import Serve, Watching
from tests.cases.servers import always, page

PAGES = (
    "01-kv-cache-rename",
    "02-before-first-sample",
    "05-finish-reasons",
    "07-data-parallel-engines",
    "08-gauge-per-pid",
    "10-lora-info-is-a-timestamp",
    "11-metric-prefixes",
    "12-created-series",
    "16-running-gauge-missing",
    "21-dynamo-worker-page",
    "22-frontend-instead-of-worker",
    "23-sglang-tp-ranks",
    "24-llamacpp-page",
    "26-trtllm-two-endpoints",
    "27-label-escapes",
    "28-crlf-lines",
    "29-no-final-newline",
    "30-bad-line",
)


def pages(case: str) -> Iterable[str]:
    return list(expected(case)["pages"])


def body(case: str, name: str) -> str:
    return content(case, name).decode()


@covers_parts(PAGES, pages)
def test_page(case: str, part: str) -> None:
    words = expected(case)["pages"][part]
    words.pop("publish", None)
    words.pop("must_not", None)

    assert_page(words, Read.of(body(case, part)))


@covers_parts(PAGES, pages)
def test_publishing(case: str, part: str, serve: Serve, watching: Watching) -> None:
    """The worker behind the page, polled twice: what leaves is what the case allows."""
    words = expected(case)["pages"][part]
    server = serve(always(page(content(case, part))))
    watch = watching(server.url)

    for mono in (0, 5):
        (poll,) = watch.tick(mono)
        assert status(poll.error) == words["status"]
        assert_publish(words.get("publish", "either"), watch.readings)

    # A reading of any kind leaves for a worker that is read, and for no other.
    assert bool(watch.readings) == (words["status"] == "ok")


@covers("05-finish-reasons")
def test_only_answered_requests_feed_the_estimate(case: str) -> None:
    (words,) = expected(case)["pages"].values()
    later = Read.of(body(case, "page.prom")).ok

    interval = between(replace(later, at=-5.0, finished={}), later)

    assert interval is not None
    assert interval.completions == words["finished_ok"]
    assert interval.departures == words["finished"]


@covers("26-trtllm-two-endpoints")
def test_a_placeholder_is_no_model(case: str) -> None:
    """The early page, with the gauge that a later release adds, can be read."""
    (forbidden,) = expected(case)["pages"]["early.prom"]["must_not"]
    (placeholder,) = re.findall(r"model tag `(.+)`", forbidden)
    text = body(case, "early.prom")
    gauge = f'num_requests_running{{model_name="{placeholder}"}} 1\n'

    sample = Read.of(text + gauge).ok

    assert placeholder in text
    assert tag.sanitize(sample.model_name) != placeholder
    assert not sample.model_name


@covers("28-crlf-lines", "29-no-final-newline")
def test_the_input_is_as_awkward_as_it_was_made(case: str) -> None:
    """A checkout that tidies text files would leave these cases without a point."""
    text = content(case, "page.prom")

    if case == "28-crlf-lines":
        assert text.count(b"\r\n") == text.count(b"\n") > 0
    else:
        assert text.endswith(b" 2.0\t")
