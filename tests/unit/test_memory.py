from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.estimators.base import Learning
from sidecar.estimators.curve import CurveEstimator
from sidecar.estimators.rate import RateEstimator
from sidecar.log import Changes
from sidecar.memory import LARGEST, MOST_ENTRIES, VERSION, WRITE_EVERY, Memory, obstacle
from sidecar.pipeline import Pipeline
from sidecar.sample import Sample
from sidecar.states import State
from tests.unit.line_worker import LIMIT, TOKENS, TRUTH, learning, polls, wandering
from tests.unit.makers import sample

CURVE = CurveEstimator(LIMIT)


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str, **_: object) -> None:
        self.warnings.append(text)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def learned(tokens: float | None = TOKENS, count: int = 240) -> Learning[Any]:
    return learning(CURVE, polls(wandering(1, LIMIT / 3, count), tokens=tokens))


def worker(model: str = "org/m", size: float | None = 1e5) -> Sample:
    return sample(0, 100, model_name=model, kv_tokens=size)


Open = Callable[[], tuple[Memory, Log]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(path: Path, clock: Clock) -> Open:
    def open_it() -> tuple[Memory, Log]:
        log = Log()
        changes = Changes(log, clock)  # type: ignore[arg-type]
        return Memory(path, "curve", changes, clock=clock, wall=lambda: 1e9), log

    return open_it


class TestKeeping:
    @pytest.mark.parametrize("tokens", [TOKENS, None])
    def test_what_was_learned_survives(
        self, opened: Open, tokens: float | None
    ) -> None:
        before = learned(tokens)
        opened()[0].keep([(worker(), before)], now=True)

        after = opened()[0].recall(CURVE, worker())

        assert before.estimate is not None
        assert after is not None
        assert after.estimate is not None
        assert after.estimate.capacity == pytest.approx(
            before.estimate.capacity, rel=0.1
        )
        assert after.estimate.evidence == 0

    def test_and_is_outweighed_by_what_comes(self, opened: Open) -> None:
        """Another replica's card is half as fast."""
        opened()[0].keep([(worker(), learned(TOKENS, 2000))], now=True)
        known = opened()[0].recall(CURVE, worker())
        assert known is not None

        for each in polls(wandering(1, LIMIT / 3, 240), tokens=TOKENS / 2):
            known = known.after(each)

        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(TRUTH, rel=0.15)

    def test_of_another_model_engine_or_cache_nothing_is_known(
        self, opened: Open
    ) -> None:
        opened()[0].keep([(worker(), learned())], now=True)
        memory, _ = opened()

        assert memory.recall(CURVE, worker("org/other")) is None
        assert memory.recall(CURVE, worker(size=2e5)) is None
        assert memory.recall(CURVE, worker(size=None)) is None
        assert memory.recall(CURVE, worker()) is not None

    def test_of_workers_alike_the_one_that_saw_most(self, opened: Open) -> None:
        little, much = learned(count=60), learned(count=240)

        memory, _ = opened()
        memory.keep(
            [(worker(), little), (worker(), much), (worker(), little)], now=True
        )

        (entry,) = json.loads(memory.path.read_text())["learned"].values()
        assert much.estimate is not None
        assert entry["evidence"] == much.estimate.evidence

    def test_it_is_written_now_and_then(
        self, opened: Open, path: Path, clock: Clock
    ) -> None:
        memory, _ = opened()

        memory.keep([(worker(), learned())])
        assert not path.exists()
        clock.now = WRITE_EVERY
        memory.keep([(worker(), learned())])

        assert path.exists()
        assert [each.name for each in path.parent.iterdir()] == [path.name]

    def test_it_is_small(self, opened: Open, path: Path) -> None:
        opened()[0].keep([(worker(), learned(count=4000))], now=True)

        assert path.stat().st_size < 10_000

    def test_others_that_write_to_it_lose_nothing(self, opened: Open) -> None:
        one, _ = opened()
        other, _ = opened()
        other.keep([(worker("org/other"), learned())], now=True)

        one.keep([(worker(), learned())], now=True)

        memory, _ = opened()
        assert memory.recall(CURVE, worker("org/other")) is not None
        assert memory.recall(CURVE, worker()) is not None

    def test_it_does_not_grow(self, opened: Open, path: Path) -> None:
        memory, _ = opened()
        some = learned(count=60)
        for i in range(MOST_ENTRIES + 5):
            memory.keep([(worker(f"org/{i}"), some)], now=True)

        assert len(json.loads(path.read_text())["learned"]) == MOST_ENTRIES

    def test_nothing_learned_writes_nothing(self, opened: Open, path: Path) -> None:
        opened()[0].keep([(worker(), Learning.begin(CURVE))], now=True)

        assert not path.exists()

    def test_an_estimator_that_does_not_last_is_left_out(
        self, opened: Open, path: Path
    ) -> None:
        rate = RateEstimator()
        known = Learning.begin(rate).after(next(iter(polls([5.0]))))
        memory, log = opened()

        memory.keep([(worker(), known)], now=True)

        assert not path.exists()
        assert memory.recall(rate, worker()) is None
        assert log.warnings == []


def good() -> dict[str, Any]:
    return {"saved_at": 1.0, "evidence": 1.0, "state": CURVE.to_json(learned().state)}


KEY = "curve | vllm | org/m | 100000 KV tokens"


class TestDamage:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"\xff\xfe\x00",
            b"[]",
            b"null",
            b'{"version": 1}',
            b'{"version": 1, "learned": []}',
            b'{"version": 1, "learned": {"a": 3}}',
            b'{"version": 0, "learned": {}}',
            b'{"version": 1, "learned": {"a": {"x": NaN}}}',
            b"[" * 100_000,
            b"x" * (LARGEST + 1),
            b"SIDECAR_TARGETS=127.0.0.1:8000\n",
        ],
        ids=lambda content: repr(content[:20]),
    )
    def test_it_is_set_aside_with_one_warning(
        self, opened: Open, path: Path, content: bytes
    ) -> None:
        path.write_bytes(content)

        memory, log = opened()
        memory.keep([(worker(), learned(count=60))], now=True)

        assert len(log.warnings) == 1
        assert "SIDECAR_STATE_FILE" in log.warnings[0]
        aside = path.with_name("state.json.unusable")
        assert aside.read_bytes() == content
        assert json.loads(path.read_text())["version"] == VERSION

    @pytest.mark.parametrize(
        "damage",
        [
            {"state": None},
            {"state": {}, "evidence": 0},
            {"state": {"levels": {"works": {"a": {}}}}},
            {"state": {"levels": {"works": {"3": {"seconds": -1, "polls": 0}}}}},
            {"state": {"levels": {"works": {"3": {"seconds": 1e308, "area": 1e-308}}}}},
            {"state": {"before": [1.0, 2.0]}},
            {"state": {"saturation": {"seconds": 1e300, "completions": 9}}},
            {"state": {"lengths": {"known": {"tokens": 0, "requests": 99}}}},
            {"state": {"lengths": {"scatter": 0}}},
            {"saved_at": 10**400},
            {"state": {"levels": {"highest": 5e-324}}},
            {"state": json.loads("[" * 900 + "]" * 900)},
            {"state": {"unit": "parsec"}},
            {"state": {"lengths": {"known": {"tokens": -5, "requests": 1e9}}}},
        ],
        ids=str,
    )
    def test_an_entry_that_is_none_is_no_entry(
        self, path: Path, opened: Open, damage: dict[str, Any]
    ) -> None:
        text = json.dumps({"version": VERSION, "learned": {KEY: {**good(), **damage}}})
        path.write_text(text)

        memory, log = opened()
        known = memory.recall(CURVE, worker())

        for each in polls(wandering(1, LIMIT / 3, 240), tokens=TOKENS):
            known = (known or Learning.begin(CURVE)).after(each)

        assert known is not None
        assert known.estimate is not None
        assert known.estimate.capacity == pytest.approx(TRUTH, rel=0.15)
        assert len(log.warnings) <= 1

    def test_the_same_entry_undamaged_is_one(self, path: Path, opened: Open) -> None:
        path.write_text(json.dumps({"version": VERSION, "learned": {KEY: good()}}))

        assert opened()[0].recall(CURVE, worker()) is not None

    def test_a_place_that_cannot_be_written_is_said_once(
        self, opened: Open, path: Path
    ) -> None:
        memory, log = opened()
        path.parent.rmdir()
        for _ in range(3):
            memory.keep([(worker(), learned(count=60))], now=True)

        assert len([text for text in log.warnings if "written" in text]) == 1

    def test_a_newer_release_s_is_left_alone(self, opened: Open, path: Path) -> None:
        path.write_text('{"version": 2, "learned": {"a": {"saved_at": 1e9}}}')

        memory, log = opened()
        for _ in range(3):
            memory.keep([(worker(), learned(count=60))], now=True)

        assert path.read_text().startswith('{"version": 2')
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        assert len(log.warnings) == 1

    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    def test_what_is_no_file_is_neither_read_nor_replaced(
        self, opened: Open, path: Path, kind: str
    ) -> None:
        path.mkdir() if kind == "folder" else os.mkfifo(path)

        memory, log = opened()
        memory.keep([(worker(), learned(count=60))], now=True)

        assert not path.is_file()
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        assert len(log.warnings) == 1

    def test_a_link_to_itself_is_no_file(self, opened: Open, path: Path) -> None:
        path.symlink_to(path)

        memory, log = opened()
        memory.keep([(worker(), learned(count=60))], now=True)

        assert len(log.warnings) >= 1

    def test_a_number_that_json_cannot_write_is_not_read(
        self, opened: Open, path: Path
    ) -> None:
        path.write_text('{"version": 1, "learned": {"other": {"saved_at": 1e400}}}')

        opened()[0].keep([(worker(), learned(count=60))], now=True)

        assert opened()[0].recall(CURVE, worker()) is not None

    def test_where_a_link_points_to_is_what_lasts(
        self, opened: Open, path: Path, tmp_path: Path
    ) -> None:
        volume = tmp_path / "volume"
        volume.mkdir()
        path.symlink_to(volume / "real.json")

        opened()[0].keep([(worker(), learned(count=60))], now=True)

        assert path.is_symlink()
        assert json.loads((volume / "real.json").read_text())["version"] == VERSION


class TestPipeline:
    def test_an_idle_worker_publishes_what_was_learned_before(self) -> None:
        before = learned()
        line = Pipeline(CURVE, recall=lambda _estimator, _sample: before)
        line.advance(sample(0, 100))

        values = line.advance(sample(5, 100))

        assert before.estimate is not None
        assert values.state is State.IDLE
        assert values.capacity == before.estimate.capacity

    def test_another_model_is_recalled_anew(self) -> None:
        asked = []

        def recall(_: object, of: Sample) -> None:
            asked.append(of.model_name)

        line = Pipeline(CURVE, recall=recall)
        for i in range(4):
            line.advance(sample(5.0 * i, 100 + i, model_name="org/a"))
        for i in range(4, 8):
            line.advance(sample(5.0 * i, 100 + i, model_name="org/b"))

        assert asked == ["org/a", "org/b"]


class TestObstacle:
    def test_a_folder_that_can_be_written_to_is_none(self, tmp_path: Path) -> None:
        assert obstacle(tmp_path / "state.json") is None

    def test_one_that_cannot_be_is_said_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And not at the first writing, a minute later. Root may write anywhere."""
        monkeypatch.setattr(os, "access", lambda *_: False)
        log = Log()

        Memory(tmp_path / "state.json", "curve", Changes(log, Clock()))  # type: ignore[arg-type]

        (warning,) = log.warnings
        assert f"{tmp_path} cannot be written to" in warning
