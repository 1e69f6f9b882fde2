from __future__ import annotations

from dataclasses import dataclass

import pytest

from sidecar import engines
from sidecar.engines.base import GENERATION_TOKENS, PREEMPTIONS, PREFILL_SECONDS
from sidecar.errors import (
    MalformedSample,
    MissingCounter,
    MissingGauge,
    NoSamples,
    NotExposition,
    PageError,
    WrongEndpoint,
)
from sidecar.exposition import Page
from sidecar.sample import Sample
from tests.unit.makers import PAGES, page


def read(text: str, name: str = "auto") -> Sample:
    parsed = Page(text)
    engine, prefix = engines.identify(parsed, engines.load(name))
    return engine.read(parsed, prefix, 7.0)


@dataclass(frozen=True)
class Known:
    """What a real page says, read by eye."""

    page: str
    engine: str
    finished: float
    running: float
    waiting: float | None
    tokens: float | None


REAL = [
    Known("vllm-0.32.0-fresh", "vllm", 0, 0, 0, 0),
    Known("vllm-0.32.0-saturated", "vllm", 248, 6, 16, 16296),
    Known("vllm-0.32.0-slash-accept-openmetrics", "vllm", 305, 0, 0, 19630),
    Known("vllm-0.32.0-slash-name-filter", "vllm", 305, 0, None, None),
    Known("vllm-0.32.0-dp2-saturated", "vllm", 48, 16, 8, 3989),
    # Counters but no gauge before the first request: idle, not broken.
    Known("vllm-0.32.0-apiserver2-fresh", "vllm", 0, 0, None, 0),
    Known("vllm-0.32.0-lora", "vllm", 36, 0, 0, 1333),
    Known("dynamo-1.6.1-vllm-system-port-loaded-t5", "dynamo", 66, 8, 16, 4547),
    # No counter of finished requests: the latency histogram's count stands in.
    Known("dynamo-1.6.1-mocker-system-port-loaded-t3", "dynamo", 114, 8, 16, None),
    # Every series twice, and after a restart the copies disagree.
    Known(
        "dynamo-1.6.1-vllm-multiproc-dir-system-port-loaded", "dynamo", 36, 7, 3, 2505
    ),
    Known(
        "dynamo-1.6.1-vllm-multiproc-dir-restarted-system-port-fresh",
        "dynamo",
        61,
        0,
        0,
        3904,
    ),
]


class TestRealPages:
    @pytest.mark.parametrize("known", REAL, ids=lambda known: known.page)
    def test_the_numbers(self, known: Known) -> None:
        sample = read(page(known.page))

        assert (sample.engine, sample.at) == (known.engine, 7.0)
        assert sample.finished_total == known.finished
        assert (sample.running, sample.waiting) == (known.running, known.waiting)
        assert sample.total(GENERATION_TOKENS) == known.tokens

    def test_every_page_is_a_sample_or_one_of_our_errors(self) -> None:
        refused = {}
        for path in PAGES:
            try:
                read(path.read_text(encoding="utf-8"))
            except PageError as error:
                refused[path.stem] = error.reason

        assert refused == {
            **{
                f"dynamo-1.6.1-frontend-{state}": "wrong_endpoint"
                for state in ("after-load", "fresh", "idle", "loaded-t0", "loaded-t3")
            },
            "dynamo-1.6.1-vllm-frontend-loaded-t5": "wrong_endpoint",
            "dynamo-1.6.1-mocker-system-port-fresh": "no_samples",
            "dynamo-1.6.1-vllm-system-port-starting": "no_samples",
            "vllm-0.32.0-disable-log-stats": "no_samples",
        }

    def test_the_cache_is_counted_once_for_an_engine(self) -> None:
        doubled = read(page("dynamo-1.6.1-vllm-multiproc-dir-system-port-idle"))

        assert read(page("vllm-0.32.0-idle")).kv_tokens == 65536
        assert read(page("vllm-0.32.0-dp2-idle")).kv_tokens == 2 * 65536
        assert doubled.kv_tokens == 65536
        assert doubled.copies == 5

    def test_preemptions_usage_and_prefill_times(self) -> None:
        sample = read(page("vllm-0.32.0-preempting"))

        assert sample.total(PREEMPTIONS) == 11
        assert sample.total(PREFILL_SECONDS) == pytest.approx(0.42549196000027223)
        assert sample.kv_usage == 1.0
        assert sample.kv_tokens == 10 * 128

    def test_a_dynamo_restart_keeps_the_series(self) -> None:
        """The worker_id is new, so it must not tell series apart."""
        sample = read(page("dynamo-1.6.1-vllm-system-port-idle"))

        names = {name for labels in sample.finished for name, _ in labels}
        assert "worker_id" not in names

    def test_two_served_names_are_one_model(self) -> None:
        assert read(page("vllm-0.32.0-two-served-names")).model_name == "tiny-a"


RUNNING = 'vllm:num_requests_running{model_name="m"} 2\n'
FINISHED = 'vllm:request_success_total{finished_reason="stop",model_name="m"} 5\n'


class TestRefusals:
    def test_a_frontend_says_why_and_what_to_set(self) -> None:
        with pytest.raises(
            WrongEndpoint, match="DYN_SYSTEM_PORT.*SIDECAR_METRICS_PORT"
        ):
            read(page("dynamo-1.6.1-frontend-loaded-t3"))

    def test_another_exporter_is_named_by_its_families(self) -> None:
        with pytest.raises(WrongEndpoint, match="node_load1, node_load5"):
            read("node_load1 1\nnode_load5 2\n")

    def test_switched_off_statistics_name_the_flag(self) -> None:
        with pytest.raises(NoSamples, match="--disable-log-stats"):
            read(page("vllm-0.32.0-disable-log-stats"))

    def test_a_missing_gauge_names_what_came_close(self) -> None:
        text = FINISHED + "vllm:num_requests_waiting 0\n"

        with pytest.raises(MissingGauge, match="running.*vllm:num_requests_waiting"):
            read(text)

    def test_a_missing_counter(self) -> None:
        with pytest.raises(MissingCounter, match="vllm:request_success_total"):
            read(RUNNING)

    @pytest.mark.parametrize("value", ["NaN", "-nan", "+Inf", "-5", "1e300"])
    def test_a_needed_number_that_is_none(self, value: str) -> None:
        """It must pass neither for zero nor, coming and going, for new work."""
        declared = "# TYPE vllm:num_requests_running gauge\n"
        running = f"vllm:num_requests_running {value}\n"

        for text in (
            FINISHED + running,
            FINISHED + declared + running,
            RUNNING + FINISHED + FINISHED.replace("stop", "x").replace("5", value),
        ):
            with pytest.raises(MalformedSample, match="which no worker can mean"):
                read(text)

    def test_an_odd_optional_number_is_left_out(self) -> None:
        text = FINISHED + RUNNING + "vllm:kv_cache_usage_perc NaN\n"

        assert read(text).kv_usage is None

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("", NoSamples),
            (" \n\n", NoSamples),
            ("# HELP a b\n", NoSamples),
            ("Not Found", NotExposition),
        ],
    )
    def test_nothing_to_read(self, text: str, error: type[PageError]) -> None:
        with pytest.raises(error):
            read(text)


class TestRules:
    def test_a_declared_counter_without_series_is_zero(self) -> None:
        """Older releases bear a series at the first finish."""
        text = "# TYPE vllm:request_success_total counter\n" + RUNNING

        assert read(text).finished_total == 0

    def test_one_prefix_contributes(self) -> None:
        text = (FINISHED + RUNNING) + (FINISHED + RUNNING).replace("vllm:", "vllm_")

        assert (read(text).finished_total, read(text).running) == (5, 2)

    def test_unknown_reasons_are_completions_and_abort_is_not(self) -> None:
        more = FINISHED.replace("stop", "abort") + FINISHED.replace("stop", "novel")

        sample = read(FINISHED + more + RUNNING)

        assert (sample.finished_total, sample.completed_total) == (15, 10)

    def test_a_placeholder_is_no_model_name(self) -> None:
        text = (FINISHED + RUNNING).replace('"m"', '"undefined"')

        assert read(text).model_name == ""

    @pytest.mark.parametrize(("awake", "sleeping"), [(1, False), (0, True)])
    def test_the_engine_says_that_it_sleeps(self, awake: int, sleeping: bool) -> None:
        state = f'vllm:engine_sleep_state{{sleep_state="awake"}} {awake}\n'

        assert read(FINISHED + RUNNING + state).sleeping is sleeping

    def test_a_cache_size_that_cannot_be_read_is_left_out(self) -> None:
        info = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n'

        assert read(FINISHED + RUNNING + info).kv_tokens is None

    def test_the_set_engine_is_the_only_one_tried(self) -> None:
        with pytest.raises(WrongEndpoint):
            read(FINISHED + RUNNING, "sglang")
