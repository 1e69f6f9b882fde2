from __future__ import annotations

import io
import json

import pytest
import structlog
from structlog.testing import LogCapture

from sidecar import environment, log
from sidecar.log import QUIET_SECONDS, Changes


def lines(
    **settings: object,
) -> tuple[io.StringIO, structlog.typing.FilteringBoundLogger]:
    stream = io.StringIO()
    return stream, log.logger(environment.load({}, **settings).settings, stream)


class TestLines:
    def test_json_for_machines(self) -> None:
        stream, logger = lines()

        logger.info("hello", worker="w")

        line = json.loads(stream.getvalue())
        assert line["event"] == "hello"
        assert line["level"] == "info"
        assert line["worker"] == "w"
        assert line["timestamp"].endswith("Z")

    def test_text_where_asked_for(self) -> None:
        stream, logger = lines(log_format="text")

        logger.info("hello")

        assert "hello" in stream.getvalue()
        assert "{" not in stream.getvalue()

    def test_the_level(self) -> None:
        stream, logger = lines(log_level="warning")

        logger.info("no")
        logger.warning("yes")

        assert [
            json.loads(each)["event"] for each in stream.getvalue().splitlines()
        ] == ["yes"]

    def test_secrets_never_stand_in_a_line(self) -> None:
        stream, logger = lines(
            bearer_token="tok-123",
            pushgateway={"url": "http://g", "username": "u", "password": "hunter2"},
        )

        logger.error("server said tok-123", body="hunter2 http://u:p@h/")
        try:
            raise ValueError("tok-123")
        except ValueError:
            logger.exception("oops")

        assert "tok-123" not in stream.getvalue()
        assert "hunter2" not in stream.getvalue()
        assert "u:p@" not in stream.getvalue()

    def test_a_full_disk_does_not_end_the_loop(self) -> None:
        class Full(io.StringIO):
            def write(self, _: str) -> int:
                raise OSError(28, "No space left on device")

        logger = log.logger(environment.load({}).settings, Full())

        logger.error("lost")


class TestChanges:
    @pytest.fixture
    def bench(self) -> Bench:
        return Bench()

    def test_the_same_thing_is_said_once(self, bench: Bench) -> None:
        for _ in range(5):
            bench.say("refused")
        bench.say("ok")

        assert bench.said == [("refused", None), ("ok", 4)]

    def test_going_back_and_forth_is_quieted(self, bench: Bench) -> None:
        for i in range(40):
            bench.say("idle" if i % 2 else "serving")
            bench.now += 5.0

        # 200 s: each of the two at most every minute.
        assert len(bench.said) <= 2 * (200 / QUIET_SECONDS + 1)

    def test_subjects_are_apart(self, bench: Bench) -> None:
        bench.say("refused", "a")
        bench.say("refused", "b")

        assert len(bench.said) == 2

    def test_a_forgotten_subject_begins_anew(self, bench: Bench) -> None:
        bench.say("refused")
        bench.changes.forget("a")
        bench.say("refused")

        assert len(bench.said) == 2


class Bench:
    """Changes with their clock in a test's hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.logged = LogCapture()
        logger = structlog.wrap_logger(
            structlog.PrintLogger(),
            processors=[self.logged],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self.changes = Changes(logger, lambda: self.now)

    def say(self, what: str, subject: str = "a") -> None:
        self.changes.say(subject, what, "info", what)

    @property
    def said(self) -> list[tuple[str, int | None]]:
        return [(e["event"], e.get("repeated")) for e in self.logged.entries]
