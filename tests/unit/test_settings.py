from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import environment
from sidecar.environment import load, variables
from sidecar.errors import SettingsError

WRONG = {
    "SIDECAR_ENABLED": "maybe",
    "SIDECAR_TARGETS": "http://",
    "SIDECAR_METRICS_PORT": "tcp",
    "SIDECAR_DISCOVERY": "everything",
    "SIDECAR_ENGINE": "vlm",
    "SIDECAR_METRICS_PATH": "metrics",
    "SIDECAR_TLS_CA_FILE": "/nonexistent/ca.pem",
    "SIDECAR_TLS_SKIP_VERIFY": "perhaps",
    "SIDECAR_POLL_INTERVAL": "0",
    "SIDECAR_SCRAPE_TIMEOUT": "soon",
    "SIDECAR_MULTIPLIER": "-1",
    "SIDECAR_MIN_CAPACITY": "nan",
    "SIDECAR_ESTIMATOR": "best",
    "SIDECAR_RATE_AGGREGATION": "p101",
    "SIDECAR_RATE_WINDOW": "-60",
    "SIDECAR_MAX_CONCURRENCY": "many",
    "SIDECAR_LATENCY_OBJECTIVE": "fast",
    "SIDECAR_STATE_FILE": "state.json",
    "SIDECAR_TAG": "meta-llama/8B",
    "SIDECAR_MODEL_IDENTIFIER": "a b",
    "SIDECAR_LABELS": "cluster",
    "SIDECAR_SINKS": "statsd",
    "SIDECAR_LISTEN": "9846:everywhere",
    "SIDECAR_RETIRE_AFTER": "never",
    "SIDECAR_LOG_LEVEL": "loud",
    "SIDECAR_LOG_FORMAT": "xml",
    "SIDECAR_PUSHGATEWAY_URL": "pushgateway:9091",
    "SIDECAR_PUSHGATEWAY_INTERVAL": "inf",
    "SIDECAR_PUSHGATEWAY_TIMEOUT": "0s",
    "SIDECAR_CLOUD_MONITORING_PROJECT": "My Project",
    "SIDECAR_CLOUD_MONITORING_INTERVAL": "4s",
    "SIDECAR_CLOUD_MONITORING_PREFIX": "prometheus.googleapis.com",
    "SIDECAR_CLOUD_MONITORING_METRICS": "signal,load",
    "SIDECAR_CLOUD_MONITORING_RESOURCE_TYPE": "gce",
    "SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS": "region=us-central1",
    "SIDECAR_CLOUD_MONITORING_TIMEOUT": "never",
    "SIDECAR_CLOUD_MONITORING_ENDPOINT": "http://127.0.0.1:8086",
    "SIDECAR_CLOUD_MONITORING_INSECURE": "sure",
}
ANY_TEXT_WILL_DO = {
    "SIDECAR_BEARER_TOKEN",
    "SIDECAR_WORKER",
    "SIDECAR_PUSHGATEWAY_JOB",
    "SIDECAR_PUSHGATEWAY_USERNAME",
    "SIDECAR_PUSHGATEWAY_PASSWORD",
    "SIDECAR_PUSHGATEWAY_BEARER_TOKEN",
}


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    return caught.value.problems


class TestWrongValues:
    def test_every_variable_is_covered(self) -> None:
        assert {v.name for v in variables()} == {*WRONG, *ANY_TEXT_WILL_DO}

    @pytest.mark.parametrize("name", WRONG)
    def test_one_sentence_names_variable_and_value(self, name: str) -> None:
        found = problems(**{name: WRONG[name]})

        assert len(found) == 1
        assert found[0].startswith(f"{name}={WRONG[name]!r} ")
        assert "\n" not in found[0]

    def test_all_at_once(self) -> None:
        assert len(problems(**WRONG)) == len(WRONG)

    @pytest.mark.parametrize(
        ("environ", "sentence"),
        [
            ({"SIDECAR_POLL_INTERVAL": "abc"}, "write 5, 5s, 500ms or 1m"),
            ({"SIDECAR_POLL_INTERVAL": "50ms"}, "from 0.1s to 1h"),
            ({"SIDECAR_DISCOVERY": "x"}, "'auto' or 'ports'"),
            ({"SIDECAR_ENABLED": "x"}, "true or false"),
            ({"SIDECAR_LABELS": "job=x"}, "sets itself"),
            ({"SIDECAR_LISTEN": "9846"}, "write 127.0.0.1:9846"),
            ({"SIDECAR_TARGETS": "a:1,a:1"}, "one worker twice"),
            ({"SIDECAR_TARGETS": "http://u:secret@a:1"}, "user or password"),
            ({"SIDECAR_TARGETS": "a:70000"}, "port from 1 to 65535"),
            ({"SIDECAR_SCRAPE_TIMEOUT": "9s"}, "longer than SIDECAR_POLL_INTERVAL"),
            ({"SIDECAR_SCRAPE_TIMEOUT": "21s"}, "is longer than 20s"),
            ({"SIDECAR_PUSHGATEWAY_USERNAME": "u"}, "both a user name and a password"),
            ({"SIDECAR_CLOUD_MONITORING_INTERVAL": "1s"}, "one point of a series each"),
            ({"SIDECAR_CLOUD_MONITORING_INSECURE": "true"}, "_ENDPOINT is not set"),
            (
                {
                    "SIDECAR_CLOUD_MONITORING_RESOURCE_TYPE": "gce_instance",
                    "SIDECAR_CLOUD_MONITORING_RESOURCE_LABELS": "pod_name=a",
                },
                "sets pod_name, but gce_instance has instance_id, zone",
            ),
            (
                {"SIDECAR_PUSHGATEWAY_URL": "http://a:x"},
                "not a plain http:// or https://",
            ),
        ],
    )
    def test_the_sentence_says_what_to_do(
        self, environ: dict[str, str], sentence: str
    ) -> None:
        assert sentence in problems(**environ)[0]

    def test_a_secret_is_never_shown(self) -> None:
        found = problems(
            SIDECAR_PUSHGATEWAY_PASSWORD="hunter2",
            SIDECAR_PUSHGATEWAY_URL="http://me:hunter2@gw:9091",
        )

        assert not any("hunter2" in each for each in found)


class TestUnknownVariables:
    def test_the_nearest_known_one_is_named(self) -> None:
        assert problems(SIDECAR_POLL_INTERVALL="5") == (
            "SIDECAR_POLL_INTERVALL is not a setting; "
            "did you mean SIDECAR_POLL_INTERVAL?",
        )

    def test_nothing_near(self) -> None:
        assert "see capacity-sidecar config" in problems(SIDECAR_ZZZZZZ="5")[0]

    def test_a_file_is_for_secrets_only(self) -> None:
        assert "not a setting" in problems(SIDECAR_WORKER_FILE="/x")[0]

    def test_an_unknown_argument(self) -> None:
        with pytest.raises(SettingsError, match="colour is not a setting"):
            load({}, colour="red")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SIDECAR_SERVICE_HOST", "10.0.0.1"),
            ("SIDECAR_SERVICE_PORT", "9846"),
            ("SIDECAR_SERVICE_PORT_HTTP", "9846"),
            ("SIDECAR_PORT", "tcp://10.0.0.1:9846"),
            ("SIDECAR_PORT_9846_TCP", "tcp://10.0.0.1:9846"),
            ("SIDECAR_PORT_9846_TCP_ADDR", "10.0.0.1"),
            # A Service called sidecar-metrics meets one of our own names.
            ("SIDECAR_METRICS_PORT", "tcp://10.0.0.1:80"),
            ("SIDECAR_METRICS_SERVICE_HOST", "10.0.0.1"),
        ],
    )
    def test_service_links_are_ignored(self, name: str, value: str) -> None:
        assert load({name: value}).origins == {}


class TestReading:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("5", 5.0),
            ("5s", 5.0),
            (" 15 ", 15.0),
            ('"15"', 15.0),
            ("'15s'", 15.0),
            ("500ms", 0.5),
            ("1m", 60.0),
            ("1.5 m", 90.0),
            ("1e3", 1000.0),
            ("1h", 3600.0),
        ],
    )
    def test_durations(self, text: str, expected: float) -> None:
        found = load({"SIDECAR_POLL_INTERVAL": text}).settings

        assert found.poll_interval == expected

    def test_empty_is_unset(self) -> None:
        assert load({"SIDECAR_POLL_INTERVAL": " "}).settings.poll_interval == 5.0

    def test_a_secret_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("s3cret\n")

        loaded = load({"SIDECAR_BEARER_TOKEN_FILE": str(path)})

        token = loaded.settings.bearer_token
        assert token is not None
        assert token.get_secret_value() == "s3cret"
        assert loaded.origins == {"SIDECAR_BEARER_TOKEN": "SIDECAR_BEARER_TOKEN_FILE"}

    def test_a_file_that_is_not_there(self) -> None:
        found = problems(SIDECAR_BEARER_TOKEN_FILE="/nonexistent")

        assert found == (
            "SIDECAR_BEARER_TOKEN_FILE='/nonexistent': the file cannot be read: "
            "No such file or directory",
        )

    def test_both_forms_of_a_secret(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("x")

        found = problems(SIDECAR_BEARER_TOKEN="y", SIDECAR_BEARER_TOKEN_FILE=str(path))

        assert found == (
            "SIDECAR_BEARER_TOKEN and SIDECAR_BEARER_TOKEN_FILE are both set",
        )

    def test_lists_and_labels(self) -> None:
        found = load(
            {
                "SIDECAR_TARGETS": "8000, [::1]:8081 ,http://h:1/x",
                "SIDECAR_LABELS": "cluster=eu1, gpu = l4",
            }
        ).settings

        assert found.targets == ("8000", "[::1]:8081", "http://h:1/x")
        assert found.labels == {"cluster": "eu1", "gpu": "l4"}

    def test_nested_models_have_their_name_in_the_middle(self) -> None:
        loaded = load({"SIDECAR_PUSHGATEWAY_URL": "http://gw:9091/"})

        assert loaded.settings.pushgateway.url == "http://gw:9091"
        assert loaded.settings.pushgateway.is_set

    def test_arguments_win(self) -> None:
        loaded = load({"SIDECAR_POLL_INTERVAL": "9"}, poll_interval="2s")

        assert loaded.settings.poll_interval == 2.0
        assert loaded.origins == {"SIDECAR_POLL_INTERVAL": "argument"}

    def test_the_process_environment_is_the_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SIDECAR_POLL_INTERVAL", "7")

        assert load().settings.poll_interval == 7.0


class TestSettings:
    def test_they_are_frozen(self) -> None:
        with pytest.raises(ValueError, match="frozen"):
            load({}).settings.multiplier = 2.0  # type: ignore[misc]

    def test_a_scrape_ends_before_the_next_is_due(self) -> None:
        assert load({}).settings.scrape_limit == 4.0
        assert load({}, poll_interval=60).settings.scrape_limit == 10.0
        assert load({}, scrape_timeout=3).settings.scrape_limit == 3.0

    def test_the_floor_of_the_signal(self) -> None:
        assert load({}).settings.minimum == 0.0
        assert load({}, estimator="rate").settings.minimum == 1.0
        assert load({}, min_capacity=0.5, estimator="rate").settings.minimum == 0.5

    def test_passwords_in_urls_are_masked(self) -> None:
        assert environment.masked("see http://u:p@h/x") == "see http://***@h/x"
