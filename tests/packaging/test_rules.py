"""The recording rules and alerts, by promtool's unit tests in rules/."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packaging.documents import (
    KUBERNETES,
    PACKAGING,
    PROMETHEUS,
    documents,
    shell_blocks,
)
from tests.packaging.prometheusrule import MANIFEST, RULES, render
from tests.process.debian import binary

UNIT_TESTS = sorted((Path(__file__).parent / "rules").glob("*.yaml"))

(GROUP,) = documents(RULES)[0]["groups"]
ALERTS = [rule for rule in GROUP["rules"] if "alert" in rule]
RECORDS = [rule for rule in GROUP["rules"] if "record" in rule]


class TestUnits:
    @pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.stem)
    def test_promtool_is_content(self, path: Path) -> None:
        promtool = binary("promtool", "prometheus")

        ran = subprocess.run(
            [promtool, "test", "rules", path], capture_output=True, text=True
        )

        assert ran.returncode == 0, ran.stdout + ran.stderr

    def test_every_rule_has_a_test(self) -> None:
        tests = [test for path in UNIT_TESTS for test in documents(path)[0]["tests"]]
        queries = " ".join(
            each["expr"] for test in tests for each in test.get("promql_expr_test", ())
        )
        expected = {
            (each["alertname"], bool(each["exp_alerts"]))
            for test in tests
            for each in test.get("alert_rule_test", ())
        }

        assert [r["record"] for r in RECORDS if r["record"] not in queries] == []
        # Each is seen to come, and to stay away.
        both = {(r["alert"], comes) for r in ALERTS for comes in (True, False)}
        assert expected == both


class TestAlerts:
    @pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
    def test_whoever_is_woken_is_told_what_to_do(self, rule: dict[str, str]) -> None:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert set(rule["labels"]) == {"severity"}
        assert set(rule["annotations"]) == {"summary", "description"}

    def test_a_worker_may_load_as_long_as_its_probe_allows(self) -> None:
        (deployment,) = documents(KUBERNETES / "sample" / "deployment.yaml")
        (worker,) = deployment["spec"]["template"]["spec"]["containers"]
        probe = worker["startupProbe"]
        loading = probe["periodSeconds"] * probe["failureThreshold"]

        waits = {rule["alert"]: rule["for"] for rule in ALERTS}

        for alert in ("LLMPoolSaturated", "CapacitySidecarReadsNoWorker"):
            assert int(waits[alert].removesuffix("m")) * 60 > loading


class TestRecords:
    def test_they_are_as_new_as_the_autoscaler_asks(self) -> None:
        (scaled,) = documents(KUBERNETES / "keda" / "scaledobject.yaml")

        assert GROUP["interval"] == f"{scaled['spec']['pollingInterval']}s"


class TestPage:
    def test_its_block_is_what_prometheus_takes(self, tmp_path: Path) -> None:
        binary("promtool", "prometheus")
        (tmp_path / "packaging").symlink_to(PACKAGING)
        (block, _) = shell_blocks(PROMETHEUS / "README.md")

        ran = subprocess.run(
            ["bash", "-euc", block], cwd=tmp_path, capture_output=True, text=True
        )

        assert (ran.returncode, ran.stdout.count("SUCCESS")) == (0, 2), ran.stderr


class TestOneSource:
    def test_the_manifest_is_the_rule_file(self) -> None:
        message = "run make docs: the rules have changed"
        assert render() == MANIFEST.read_text("utf-8"), message

    def test_the_manifest_has_the_same_groups(self) -> None:
        (manifest,) = documents(MANIFEST)
        (rules,) = documents(RULES)

        assert manifest["spec"] == rules

    def test_needed_is_at_the_target_of_the_autoscalers(self) -> None:
        (hpa,) = documents(KUBERNETES / "hpa" / "hpa.yaml")
        (metric,) = hpa["spec"]["metrics"]
        (needed,) = (r for r in RECORDS if r["record"] == "llm_pool:workers_needed")

        target = int(metric["pods"]["target"]["averageValue"].removesuffix("m")) / 1000
        assert needed["expr"] == f"ceil(llm_pool:utilization:sum / {target:g})"
