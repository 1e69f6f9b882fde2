from __future__ import annotations

import io
import json
import socket
from base64 import urlsafe_b64decode
from urllib.parse import unquote

import pytest
import responses
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sidecar import environment, sinks
from sidecar.errors import SettingsError, SinkError
from sidecar.reading import Identity
from sidecar.sinks.prometheus import PrometheusSink
from sidecar.sinks.pushgateway import PushgatewaySink, path
from sidecar.sinks.stdout import StdoutSink
from tests.unit.makers import IDENTITY, reading

GATEWAY = "http://gateway.example:9091"
GROUP = f"{GATEWAY}/metrics/job/capacity-sidecar/tag/m/worker/host%3A8000"


def pushgateway(url: str = GATEWAY, **more: object) -> PushgatewaySink:
    settings = environment.load({}, pushgateway={"url": url, **more}).settings
    sink = sinks.build("pushgateway", settings)
    assert isinstance(sink, PushgatewaySink)
    return sink


class TestChoice:
    def test_the_own_page_always(self) -> None:
        assert sinks.chosen(environment.load({}).settings) == ["prometheus"]

    def test_an_address_switches_a_sink_on(self) -> None:
        settings = environment.load({"SIDECAR_PUSHGATEWAY_URL": GATEWAY}).settings

        assert sinks.chosen(settings) == ["prometheus", "pushgateway"]

    def test_named_outright(self) -> None:
        settings = environment.load({"SIDECAR_SINKS": "stdout"}).settings

        assert sinks.chosen(settings) == ["stdout"]

    def test_without_an_address_it_cannot_be_built(self) -> None:
        settings = environment.load({"SIDECAR_SINKS": "pushgateway"}).settings

        with pytest.raises(SettingsError, match="SIDECAR_PUSHGATEWAY_URL is not set"):
            sinks.build("pushgateway", settings)

    @pytest.mark.parametrize("name", ["prometheus", "stdout"])
    def test_a_sink_without_a_destination_is_always_there(self, name: str) -> None:
        sink = sinks.build(name, environment.load({}).settings)

        assert sink.name == name
        assert sink.check()


class TestPushgateway:
    @responses.activate
    def test_a_push_replaces_the_group(self) -> None:
        responses.put(GROUP, status=200)

        pushgateway().publish([reading()])

        request = responses.calls[0].request
        body = request.body
        assert isinstance(body, bytes)
        found = {
            s.name: (s.labels, s.value, s.timestamp)
            for family in text_string_to_metric_families(body.decode())
            for s in family.samples
        }
        # The gateway adds the group's labels itself; a timestamp it would refuse.
        assert found["num_loaded_models_m"] == ({"model_name": "org/m"}, 12.5, None)
        assert body.endswith(b"\n")

    @responses.activate
    def test_a_group_a_worker(self) -> None:
        other = GROUP.replace("8000", "8001")
        responses.put(GROUP, status=202)
        responses.put(other, status=200)
        two = reading(Identity("m", "org/m", "host:8001"))

        pushgateway().publish([reading(), two])

        assert [call.request.url for call in responses.calls] == [GROUP, other]

    @responses.activate
    def test_the_gateways_reason_is_shown(self) -> None:
        responses.put(GROUP, status=400, body="pushed metrics\nare  inconsistent")

        with pytest.raises(SinkError, match="metrics are inconsistent") as caught:
            pushgateway().publish([reading()])

        assert caught.value.reason == "http_400"

    @responses.activate
    def test_one_refused_group_does_not_stop_the_next(self) -> None:
        other = GROUP.replace("8000", "8001")
        responses.put(GROUP, status=400)
        responses.put(other, status=200)

        with pytest.raises(SinkError):
            pushgateway().publish(
                [reading(), reading(Identity("m", "org/m", "host:8001"))]
            )

        assert len(responses.calls) == 2

    @responses.activate
    def test_a_redirect_is_not_followed(self) -> None:
        responses.put(GROUP, status=308, headers={"Location": f"{GATEWAY}/elsewhere"})

        with pytest.raises(SinkError) as caught:
            pushgateway().publish([reading()])

        assert caught.value.reason == "http_308"

    @responses.activate
    def test_a_missing_right_names_the_settings(self) -> None:
        responses.put(GROUP, status=401)

        with pytest.raises(SinkError, match="SIDECAR_PUSHGATEWAY_USERNAME"):
            pushgateway().publish([reading()])

    def test_nobody_there(self) -> None:
        with pytest.raises(SinkError, match="does not answer.*refused") as caught:
            pushgateway("http://127.0.0.1:9").publish([reading()])

        assert caught.value.reason == "unreachable"

    @responses.activate
    def test_retire_deletes_the_group_of_the_push(self) -> None:
        responses.delete(GROUP, status=202)

        pushgateway().retire([IDENTITY])

        assert responses.calls[0].request.method == "DELETE"

    @responses.activate
    def test_one_group_that_stays_keeps_no_other_there(self) -> None:
        responses.delete(GROUP, status=400, body="no")
        other = GROUP.replace("host%3A8000", "host%3A8001")
        responses.delete(other, status=202)

        with pytest.raises(SinkError, match="answers 400 to DELETE"):
            pushgateway().retire([IDENTITY, Identity("m", "org/m", "host:8001")])

        assert [call.request.url for call in responses.calls] == [GROUP, other]

    @responses.activate
    def test_check_asks_whether_it_is_ready(self) -> None:
        responses.get(f"{GATEWAY}/-/ready", status=200)

        assert pushgateway().check() == f"{GATEWAY} is ready"

    @responses.activate
    def test_passwords_and_tokens(self) -> None:
        responses.put(GROUP, status=200)

        pushgateway(username="u", password="p").publish([reading()])
        pushgateway(bearer_token="t").publish([reading()])

        sent = [call.request.headers["Authorization"] for call in responses.calls]
        assert sent == ["Basic dTpw", "Bearer t"]

    @responses.activate
    def test_a_clashing_label_is_refused_before_sending(self) -> None:
        clash = Identity("m", "org/m", "host:8000", (("job", "other"),))

        with pytest.raises(SinkError, match="SIDECAR_LABELS") as caught:
            pushgateway().publish([reading(clash)])

        assert caught.value.reason == "label_clash"
        assert len(responses.calls) == 0

    @pytest.mark.parametrize(
        ("url", "through_proxy"),
        [(GATEWAY, True), ("http://127.0.0.1:9091", False), ("http://[::1]:1", False)],
    )
    def test_proxies_are_for_hosts_elsewhere(
        self, url: str, through_proxy: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
        session = pushgateway(url)._session

        merged = session.merge_environment_settings(url, {}, None, None, None)

        assert bool(merged["proxies"].get("http")) is through_proxy

    @given(st.text(max_size=40), st.text(max_size=40))
    def test_any_value_finds_its_way_into_the_path(self, job: str, worker: str) -> None:
        found = path({"job": job, "worker": worker})

        parts = found.removeprefix("/metrics/").split("/")
        assert len(parts) == 4
        assert "" not in parts
        values = [
            urlsafe_b64decode(value if value != "=" else "").decode()
            if name.endswith("@base64")
            else unquote(value)
            for name, value in zip(parts[::2], parts[1::2], strict=True)
        ]
        assert values == [job, worker]


class TestPrometheus:
    def page(self, sink: PrometheusSink) -> str:
        registry = CollectorRegistry()
        registry.register(sink)
        return generate_latest(registry).decode()

    def test_the_newest_reading_of_each_worker(self) -> None:
        sink = PrometheusSink("127.0.0.1:9846")
        other = Identity("m", "org/m", "host:8001")
        sink.publish([reading(capacity=1.0), reading(other, capacity=2.0)])
        sink.publish([reading(capacity=3.0)])

        found = self.page(sink)

        assert 'worker="host:8000"} 3.0' in found
        assert 'worker="host:8001"} 2.0' in found
        assert found.count("# TYPE llm_worker_capacity gauge") == 1

    def test_check_says_whether_its_address_is_free(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            assert "is taken now" in PrometheusSink(listen).check()
        assert "taken" not in PrometheusSink(listen).check()
        assert "off" in PrometheusSink("off").check()

    def test_retired_workers_vanish(self) -> None:
        sink = PrometheusSink("127.0.0.1:9846")
        sink.publish([reading()])

        sink.retire([IDENTITY])
        sink.retire([IDENTITY])

        assert self.page(sink) == ""


class TestStdout:
    def test_a_line_a_reading(self) -> None:
        stream = io.StringIO()

        StdoutSink(stream).publish([reading(), reading(time=2e9)])

        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [line["time"] for line in lines] == [1e9, 2e9]
        assert lines[0]["num_loaded_models_m"] == 12.5
        assert lines[0]["state"] == "serving"

    def test_a_closed_stream_is_the_sinks_trouble(self) -> None:
        stream = io.StringIO()
        stream.close()

        with pytest.raises(SinkError, match="standard output is gone"):
            StdoutSink(stream).publish([reading()])
