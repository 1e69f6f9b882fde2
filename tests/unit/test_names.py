from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import environment, naming, tag, target
from sidecar.reading import Identity
from sidecar.schedule import next_tick


def named(
    *workers: tuple[str, str], host: str = "vm1", **settings: object
) -> list[Identity]:
    pairs = [(target.parse(text), model) for text, model in workers]
    return naming.identities(pairs, environment.load({}, **settings).settings, host)


class TestTag:
    @pytest.mark.parametrize(
        ("model", "expected"),
        [
            ("meta-llama/Llama-3.1-8B", "meta_llama_Llama_3_1_8B"),
            ("模型-7b", "___7b"),
            ("..", "__"),
            ("", tag.UNNAMED),
            ("  ", tag.UNNAMED),
        ],
    )
    def test_sanitizing(self, model: str, expected: str) -> None:
        assert tag.sanitize(model) == expected

    @given(st.text(max_size=300))
    def test_every_tag_is_legal(self, model: str) -> None:
        assert tag.is_legal(tag.sanitize(model))

    def test_long_names_with_one_beginning_differ(self) -> None:
        one, two = tag.sanitize("x" * 300), tag.sanitize("x" * 301)

        assert one != two
        assert len(one) == len(two) == tag.MAX_LENGTH

    @given(st.lists(st.text(max_size=120), unique=True, max_size=8))
    def test_models_of_one_process_never_share_a_tag(self, models: list[str]) -> None:
        tags = tag.distinct(models)

        assert len(set(tags.values())) == len(models)
        assert all(map(tag.is_legal, tags.values()))

    @pytest.mark.parametrize("text", ["", "a-b", "a b", "ä", "x" * 101])
    def test_what_is_not_legal(self, text: str) -> None:
        assert not tag.is_legal(text)


class TestWorkerNames:
    def test_host_name_and_port(self) -> None:
        assert named(("8000", "m"))[0].worker == "vm1:8000"

    def test_a_remote_worker_has_its_own_host(self) -> None:
        assert named(("10.0.0.7:8000", "m"))[0].worker == "10.0.0.7:8000"

    def test_the_setting(self) -> None:
        assert named(("8000", "m"), worker="w")[0].worker == "w"

    def test_several_workers_get_their_port(self) -> None:
        found = named(("8000", "m"), ("8001", "m"), worker="w")

        assert [i.worker for i in found] == ["w:8000", "w:8001"]

    def test_several_pages_on_one_port_get_their_path(self) -> None:
        found = named(("http://a:1/x", "m"), ("http://a:1/y", "m"))

        assert [i.worker for i in found] == ["a:1/x", "a:1/y"]

    def test_tag_wins_over_identifier_over_model(self) -> None:
        assert named(("1", "a/b"), tag="t", model_identifier="i")[0].tag == "t"
        assert named(("1", "a/b"), model_identifier="i")[0].tag == "i"
        assert named(("1", "a/b"))[0].tag == "a_b"

    def test_models_that_meet_in_one_tag_both_get_a_hash(self) -> None:
        one, two = named(("1", "a/b"), ("2", "a_b"))

        assert one.tag != two.tag
        assert one.tag.startswith("a_b_")
        assert two.tag.startswith("a_b_")

    def test_labels_come_along(self) -> None:
        (found,) = named(("1", "m"), labels="gpu=l4")

        assert dict(found.all_labels)["gpu"] == "l4"


class TestTarget:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("8000", "http://localhost:8000"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("[::1]:8081", "http://[::1]:8081"),
            ("::1:8081", "http://[::1]:8081"),
            ("http://[::1]:8081/metrics", "http://[::1]:8081/metrics"),
            ("https://h/m?x=1", "https://h:443/m?x=1"),
            ("http://h/", "http://h:80"),
            ("h:1/prometheus/metrics", "http://h:1/prometheus/metrics"),
        ],
    )
    def test_forms(self, text: str, url: str) -> None:
        assert target.parse(text).url == url

    @pytest.mark.parametrize(
        "text", ["", "h", "h:", ":1", "ftp://h:1", "http://:1", "h:0", "h:99999", "0"]
    )
    def test_what_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="write http://127.0.0.1:8000/metrics"):
            target.parse(text)

    @pytest.mark.parametrize(
        ("host", "loopback"),
        [
            ("localhost", True),
            ("127.0.0.9", True),
            ("[::1]", True),
            ("10.0.0.1", False),
            ("gateway", False),
        ],
    )
    def test_loopback(self, host: str, loopback: bool) -> None:
        assert target.parse(f"{host}:1").is_loopback is loopback


class TestSchedule:
    @given(st.floats(-1e6, 1e6), st.floats(0.1, 3600), st.floats(0, 1e6))
    def test_the_next_tick_is_on_the_grid_and_not_in_the_past(
        self, started: float, interval: float, later: float
    ) -> None:
        now = started + later

        due = next_tick(started, interval, now)

        assert now - 1e-6 <= due <= now + interval + 1e-6
        steps = (due - started) / interval
        assert steps == pytest.approx(round(steps), abs=1e-3)

    def test_late_ticks_are_skipped(self) -> None:
        assert next_tick(100, 5, 117.5) == 120
