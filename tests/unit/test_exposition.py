from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import (
    generate_latest as openmetrics_text,
)
from prometheus_client.parser import text_string_to_metric_families

from sidecar import engines
from sidecar.errors import MalformedSample, NotExposition, PageError
from sidecar.exposition import Page
from tests.unit.makers import PAGES

LINE = "vllm:num_requests_running"


class TestAgainstPrometheusClient:
    @pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
    def test_the_same_samples_on_every_real_page(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        expected: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for s in family.samples:
                # It renames counters after their TYPE line; the page's name counts.
                name = s.name if f"\n{s.name}" in text else s.name[: -len("_total")]
                if math.isfinite(s.value):
                    expected.setdefault(name, []).append((s.labels, s.value))

        found = {
            name: [(dict(labels), value) for labels, value in page.samples(name)]
            for name in page.names()
        }

        assert set(found) == set(expected)
        for name, samples in expected.items():
            assert sorted(found[name], key=repr) == sorted(samples, key=repr), name

    @given(
        st.dictionaries(st.text(max_size=12), st.floats(allow_nan=False), max_size=6)
    )
    def test_any_label_value_and_number_survives(
        self, values: dict[str, float]
    ) -> None:
        registry = CollectorRegistry()
        gauge = Gauge("g", "help\n\\", ["l"], registry=registry)
        for label, value in values.items():
            gauge.labels(label).set(value)

        found = Page(generate_latest(registry).decode()).samples("g")

        finite = {label: v for label, v in values.items() if math.isfinite(v)}
        assert {dict(labels)["l"]: v for labels, v in found} == finite

    def test_openmetrics_text_with_exemplars(self) -> None:
        registry = CollectorRegistry()
        Gauge("g", "help", ["l"], registry=registry).labels("a}b").set(2)
        text = openmetrics_text(registry).decode()  # type: ignore[no-untyped-call]
        text = text.replace("g{", 'g_bucket{le="1"} 3 # {trace="x"} 0.5 1e9\ng{')

        page = Page(text)

        assert page.samples("g") == [((("l", "a}b"),), 2.0)]
        assert page.samples("g_bucket") == [((("le", "1"),), 3.0)]


class TestTolerance:
    @pytest.mark.parametrize(
        "line",
        [
            f'{LINE}{{a="b"}} 3',
            f'{LINE}{{ a = "b" , }} 3.0',
            f'{LINE}{{a="b"}}\t3 1700000000000',
            f'{LINE}{{a="b"}}   3  \r',
        ],
    )
    def test_one_sample_however_it_is_spaced(self, line: str) -> None:
        assert Page(f"# x\n{line}\n").samples(LINE) == [((("a", "b"),), 3.0)]

    def test_the_name_is_matched_whole(self) -> None:
        text = f"{LINE}_by_reason 1\nmy_{LINE} 2\n{LINE} 3"

        assert Page(text).samples(LINE) == [((), 3.0)]

    @pytest.mark.parametrize("value", ["NaN", "-nan", "nan", "+Inf", "-Inf"])
    def test_a_value_that_is_no_number_is_a_missing_sample(self, value: str) -> None:
        assert Page(f"{LINE} {value}\n").samples(LINE) == []

    @pytest.mark.parametrize(
        "rest",
        [
            '{a="o"rg"} 70',
            '{a="b"',
            '{a="b"}',
            '{a="b"} x',
            '{a="b" c="d"} 1',
            " x",
            " 1 soon",
            "{a=b} 1",
        ],
    )
    def test_a_broken_needed_line_makes_the_total_unknown(self, rest: str) -> None:
        with pytest.raises(MalformedSample, match="unreadable line"):
            Page(f"{LINE}{rest}\n").samples(LINE)

    def test_a_broken_line_of_another_family_is_only_counted(self) -> None:
        page = Page(f'app{{n="a" b"}} 3\n{LINE} 1\n# comment {{\n')

        assert page.samples(LINE) == [((), 1.0)]
        assert page.malformed_lines() == 1

    @pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
    def test_no_real_page_has_an_unreadable_line(self, path: Path) -> None:
        assert Page(path.read_text(encoding="utf-8")).malformed_lines() == 0

    @pytest.mark.parametrize("body", ['"# TYPE a"', "[]", ' {"a": 1}', "<html>"])
    def test_json_and_html_are_told_by_their_first_byte(self, body: str) -> None:
        with pytest.raises(NotExposition, match="not Prometheus text"):
            Page(body)

    @given(st.text(max_size=300))
    def test_no_body_breaks_the_reader(self, body: str) -> None:
        """Whatever a server sends, the answer is a sample or one of our errors."""
        try:
            page = Page(f"{body}\n{LINE}{{{body}}} 1")
            engine, prefix = engines.identify(page, engines.load("auto"))
            engine.read(page, prefix, 0.0)
        except PageError:
            pass
