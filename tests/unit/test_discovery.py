from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from sidecar import discovery, environment, processes
from sidecar.discovery import Discovered, discover, sources, system_port
from sidecar.errors import ScrapeError, SettingsError
from sidecar.processes import Process, WorkerProcess
from sidecar.sample import Sample
from sidecar.target import Target
from tests.unit.makers import sample


def look(
    answering: set[int],
    environ: Mapping[str, str] | None = None,
    table: list[Process] | None = None,
    ports: list[int] | None = None,
    **settings: object,
) -> Discovered:
    def probe(target: Target) -> Sample:
        if target.port in answering:
            return sample(0, 0)
        raise ScrapeError("refused", reason="refused")

    def found() -> Iterator[Process]:
        return iter(table or [])

    loaded = environment.load({}, **settings).settings
    return discover(sources(loaded, environ or {}, found, lambda: ports or []), probe)


def urls(found: Discovered) -> list[str]:
    return [target.url for target in found.targets]


VLLM = Process(7, ["python3", "/usr/bin/vllm", "serve", "m", "--port", "8100"], {})


class TestOrder:
    def test_targets_win(self) -> None:
        found = look(
            {1, 2, 8000},
            {"DYN_SYSTEM_PORT": "8081"},
            [VLLM],
            targets="a:1,b:2",
            metrics_port=9,
        )

        assert urls(found) == ["http://a:1", "http://b:2"]
        assert found.final

    def test_the_limit_is_on_the_command_line_however_it_was_found(self) -> None:
        worker = Process(
            7,
            ["python", "-m", "dynamo.vllm", "--max-num-seqs", "8"],
            {"DYN_SYSTEM_PORT": "8081"},
        )

        by_variable = look({8081}, {"DYN_SYSTEM_PORT": "8081"}, [worker])
        by_setting = look({8081}, {}, [worker], targets="127.0.0.1:8081,other:8081")

        assert [each.max_concurrency for each in by_variable.targets] == [8]
        assert [each.max_concurrency for each in by_setting.targets] == [8, None]

    def test_then_the_port(self) -> None:
        found = look({8000}, {"DYN_SYSTEM_PORT": "8081"}, [VLLM], metrics_port=9)

        assert urls(found) == ["http://localhost:9"]

    def test_then_dynamos_variables_in_their_order(self) -> None:
        environ = {
            "DYN_SYSTEM_PORT10": "8090",
            "DYN_SYSTEM_PORT2": "8082",
            "DYN_SYSTEM_PORT": "8081",
            "DYN_SYSTEM_PORT1": "",
            "DYN_SYSTEM_PORTS": "x",
        }

        found = look({8000}, environ, [VLLM])

        assert [target.port for target in found.targets] == [8081, 8082, 8090]
        assert found.final

    def test_then_the_process_table(self) -> None:
        found = look({8000, 8100}, table=[VLLM])

        assert urls(found) == ["http://localhost:8100"]
        assert not found.final

    def test_then_the_usual_ports_all_that_are_workers(self) -> None:
        assert urls(look({8000, 8081}, table=[VLLM])) == [
            "http://localhost:8000",
            "http://localhost:8081",
        ]

    def test_every_listening_port_where_asked_for(self) -> None:
        ports = [22, 8000, 9846, 41000]

        assert urls(look({41000}, ports=ports)) == []
        found = look({41000, 9846}, ports=ports, discovery="ports")

        assert urls(found) == ["http://localhost:41000"]  # not the sidecar's own

    def test_what_was_set_is_believed_before_it_answers(self) -> None:
        found = look(set(), targets="a:1")

        assert urls(found) == ["http://a:1"]
        assert found.verdicts[0].taken
        assert found.verdicts[0].reason == "refused"

    def test_every_candidate_has_a_verdict(self) -> None:
        found = look(set(), {"DYN_SYSTEM_PORT": "-1"}, [VLLM])

        assert [(v.source, v.subject, v.taken) for v in found.verdicts] == [
            ("SIDECAR_TARGETS", "", False),
            ("SIDECAR_METRICS_PORT", "", False),
            ("DYN_SYSTEM_PORT", "", False),
            ("process table", "http://localhost:8100 (vllm serve, process 7)", False),
            ("usual ports", "http://localhost:8000", False),
            ("usual ports", "http://localhost:9090", False),
            ("usual ports", "http://localhost:8081", False),
        ]
        assert found.targets == ()


class TestSystemPort:
    @pytest.mark.parametrize(
        ("value", "port"),
        [
            ("", None),
            ("  ", None),
            ("-1", None),
            ("0", None),
            (" 8301 ", 8301),
            ("32767", 32767),
            ("1", 1),
        ],
    )
    def test_what_dynamo_accepts(self, value: str, port: int | None) -> None:
        assert system_port("DYN_SYSTEM_PORT", value) == port

    @pytest.mark.parametrize(
        "value",
        ["32768", "40000", "abc", "tcp://10.0.0.1:8081", "8081.0", '"8081"', "-2", "٣"],
    )
    def test_what_it_refuses(self, value: str) -> None:
        with pytest.raises(SettingsError) as caught:
            system_port("DYN_SYSTEM_PORT1", value)

        assert f"DYN_SYSTEM_PORT1={value!r}" in str(caught.value)
        assert "DYN_SYSTEM_PORT1=8081" in str(caught.value)

    def test_all_wrong_ones_at_once(self) -> None:
        environ = {"DYN_SYSTEM_PORT": "x", "DYN_SYSTEM_PORT1": "y"}
        settings = environment.load({}).settings

        with pytest.raises(SettingsError) as caught:
            discovery.refuse_bad_variables(settings, environ)

        assert len(caught.value.problems) == 2

    def test_it_does_not_matter_where_the_port_is_set(self) -> None:
        settings = environment.load({}, metrics_port=8000).settings

        discovery.refuse_bad_variables(settings, {"DYN_SYSTEM_PORT": "x"})

    @pytest.mark.parametrize(
        ("value", "words"), [("0", "lets the system choose"), ("-1", "switches")]
    )
    def test_no_known_port_says_what_to_set(self, value: str, words: str) -> None:
        found = look(set(), {"DYN_SYSTEM_PORT": value})

        (note,) = [v.reason for v in found.verdicts if v.source == "DYN_SYSTEM_PORT"]
        assert words in note
        assert "DYN_SYSTEM_PORT=8081" in note


def of(
    arguments: str, environ: Mapping[str, str] | None = None
) -> WorkerProcess | None:
    return processes.worker(Process(1, arguments.split(), environ))


class TestProcesses:
    @pytest.mark.parametrize(
        ("arguments", "kind", "port", "limit"),
        [
            ("vllm serve m", "vllm serve", 8000, None),
            ("/v/bin/python /v/bin/vllm serve m --port=8100", "vllm serve", 8100, None),
            ("vllm serve m --max-num-seqs 8", "vllm serve", 8000, 8),
            ("vllm serve m --max_num_seqs=8 -dp 2", "vllm serve", 8000, 16),
            (
                "python -m vllm.entrypoints.openai.api_server --data-parallel-size 4"
                " --max-num-seqs 32 --port 9",
                "vllm.entrypoints.openai.api_server",
                9,
                128,
            ),
            ("python3 -u -m dynamo.mocker --model-path m", "dynamo.mocker", None, None),
        ],
    )
    def test_workers(
        self, arguments: str, kind: str, port: int | None, limit: float | None
    ) -> None:
        found = of(arguments)

        assert found is not None
        assert (found.kind, found.port, found.max_concurrency) == (kind, port, limit)

    @pytest.mark.parametrize(
        "arguments",
        [
            "vllm bench serve",
            "python -m dynamo.frontend",
            "grep vllm serve",
            "VLLM::EngineCore",
            "vim vllm.py",
            "python -m",
        ],
    )
    def test_what_is_no_worker(self, arguments: str) -> None:
        assert of(arguments) is None

    def test_an_https_worker(self) -> None:
        table = [Process(1, ["vllm", "serve", "m", "--ssl-certfile", "c"], {})]

        assert urls(look({8000}, table=table)) == ["https://localhost:8000"]

    def test_a_dynamo_worker_has_its_port_in_its_environment(self) -> None:
        arguments = [
            "python",
            "-m",
            "dynamo.vllm",
            "--model",
            "m",
            "--max-num-seqs",
            "8",
        ]
        table = [Process(1, arguments, {"DYN_SYSTEM_PORT": "8204"})]

        found = look({8204}, table=table)

        assert [(t.port, t.max_concurrency) for t in found.targets] == [(8204, 8)]

    @pytest.mark.parametrize(
        ("process", "words"),
        [
            (Process(1, ["python", "-m", "dynamo.vllm"], None), "SIDECAR_METRICS_PORT"),
            (
                Process(1, ["python", "-m", "dynamo.vllm"], {"DYN_SYSTEM_PORT": "x"}),
                "not a port that Dynamo accepts",
            ),
            (
                Process(1, ["python", "-m", "dynamo.vllm"], {"DYN_SYSTEM_PORT": "-1"}),
                "switches the worker's page off",
            ),
            (Process(1, ["vllm", "serve", "m"], {}, elsewhere=True), "SIDECAR_TARGETS"),
        ],
    )
    def test_why_a_worker_is_no_candidate(self, process: Process, words: str) -> None:
        found = look(set(), table=[process])

        (note,) = [v.reason for v in found.verdicts if v.source == "process table"]
        assert words in note
