"""The real engines: how each is started and when it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.real.child import Child, fetch
from tests.real.tiny_model import NAME

SLOTS = 8
"""``--max-num-seqs`` of every worker."""

_START = 180.0
_PLANES = [
    *("--discovery-backend", "file"),
    *("--request-plane", "tcp"),
    *("--event-plane", "zmq"),
]
_VLLM = [
    *("--load-format", "dummy", "--enforce-eager", "--max-model-len", "1024"),
    # bfloat16 without AVX-512 is several times slower; float32 runs everywhere.
    *("--dtype", "float32", "--max-num-seqs", str(SLOTS), "--served-model-name", NAME),
]


@dataclass(frozen=True)
class Site:
    """Where things are.

    Attributes:
        venvs: folder of the installed engines.
        work: folder for logs and whatever else a run leaves.
        model: the tiny model.
        env: environment of every process.
    """

    venvs: Path
    work: Path
    model: Path
    env: Mapping[str, str]

    def with_registry(self, name: str) -> Site:
        """With a folder through which Dynamo's processes find each other."""
        folder = self.work / "tmp" / name
        folder.mkdir(parents=True)
        return replace(self, env={**self.env, "DYN_FILE_KV": str(folder)})

    def start(self, name: str, *arguments: str, **env: str) -> Child:
        """Start a process that logs to ``name``."""
        log = self.work / f"{name}.log"
        return Child(name, arguments, {**self.env, **env}, log)


class Engine:
    """A worker.

    Attributes:
        port: of its metrics page.
        load_port: where it takes requests.
        started: seconds that it took to serve.
    """

    def __init__(
        self, child: Child, port: int, counter: str, load_port: int | None = None
    ) -> None:
        self.child = child
        self.port = port
        self.load_port = load_port or port
        self.started = 0.0
        self._counter = counter

    @property
    def page(self) -> str:
        """The URL of its metrics page."""
        return f"http://127.0.0.1:{self.port}/metrics"

    def wait_until_serving(self, text: str = "vllm:num_requests_running") -> None:
        """Wait for its first page that has ``text``."""
        self.started = self.child.wait_for(self.page, text, _START)

    def completed(self) -> float:
        """Requests that it has answered, by its own counter."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(fetch(self.page))
            for sample in family.samples
            if sample.name == self._counter
        )


def vllm(site: Site, name: str, port: int) -> Engine:
    """``vllm serve``."""
    bin_ = site.venvs / "vllm/bin"
    child = site.start(
        name,
        *(str(bin_ / "vllm"), "serve", str(site.model)),
        *("--host", "127.0.0.1", "--port", str(port), *_VLLM),
        PATH=f"{bin_}:{site.env['PATH']}",
    )
    return Engine(child, port, "vllm:request_success_total")


def mocker(site: Site, name: str, port: int, frontend: int) -> Engine:
    """Dynamo's mocker."""
    child = site.start(
        name,
        *(str(site.venvs / "dynamo/bin/python"), "-m", "dynamo.mocker"),
        *("--model-path", str(site.model), "--model-name", NAME, *_PLANES),
        *("--max-num-seqs", str(SLOTS), "--max-model-len", "1024"),
        DYN_SYSTEM_PORT=str(port),
    )
    counter = "vllm:e2e_request_latency_seconds_count"
    return Engine(child, port, counter, load_port=frontend)


def dynamo_vllm(site: Site, name: str, port: int, frontend: int) -> Engine:
    """Dynamo's vLLM worker."""
    bin_ = site.venvs / "dynamo-vllm/bin"
    child = site.start(
        name,
        *(str(bin_ / "python"), "-m", "dynamo.vllm", "--model", str(site.model)),
        *(*_VLLM, *_PLANES),
        PATH=f"{bin_}:{site.env['PATH']}",
        DYN_SYSTEM_PORT=str(port),
    )
    return Engine(child, port, "vllm:request_success_total", load_port=frontend)


def frontend(site: Site, name: str, port: int, venv: str) -> Child:
    """Dynamo's frontend, which hands requests to the workers."""
    return site.start(
        name,
        *(str(site.venvs / venv / "bin/python"), "-m", "dynamo.frontend"),
        *("--http-host", "127.0.0.1", "--http-port", str(port), *_PLANES),
    )


def environment(base: Mapping[str, str], work: Path) -> dict[str, str]:
    """Offline, on loopback, and with every trace that it leaves under ``work``."""
    ours = ("SIDECAR_", "DYN_", "VLLM_")
    kept = {key: value for key, value in base.items() if not key.startswith(ours)}
    tmp, cache = work / "tmp", work / "cache"
    for folder in (tmp, cache):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        "TMPDIR": str(tmp),
        "XDG_CACHE_HOME": str(cache),
        "XDG_CONFIG_HOME": str(cache),
        "HF_HOME": str(cache / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_SYSTEM_HOST": "127.0.0.1",
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1",
        "DYN_EVENT_PLANE_HOST": "127.0.0.1",
        "DYN_SDK_DISABLE_ANSI_LOGGING": "1",
    }
