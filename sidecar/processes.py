"""Workers in the process table, and listening ports, as Linux shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise
from pathlib import Path

PROC = Path("/proc")

_VLLM_PORT = 8000
_LISTENING = "0A"
_DYNAMO_MODULES = ("dynamo.vllm", "dynamo.mocker")


@dataclass(frozen=True)
class Process:
    """One process: its arguments, and its environment where that may be read.

    Attributes:
        elsewhere: it is in another network namespace, so its loopback is not ours.
    """

    pid: int
    arguments: Sequence[str]
    environment: Mapping[str, str] | None
    elsewhere: bool = False


@dataclass(frozen=True)
class WorkerProcess:
    """A process that is a worker, as its command line tells.

    Attributes:
        kind: ``vllm serve``, ``dynamo.vllm``, …
        port: of its metrics page; None where it is not on the command line.
        system_port: the raw ``DYN_SYSTEM_PORT`` of a Dynamo worker.
        max_concurrency: sequence limit over all its data-parallel engines, requests.
    """

    pid: int
    kind: str
    scheme: str = "http"
    port: int | None = None
    system_port: str | None = None
    max_concurrency: float | None = None
    elsewhere: bool = False


def processes(proc: Path = PROC) -> Iterator[Process]:
    """All processes whose command line may be read."""
    own_net = _link(proc / "self/ns/net")
    for entry in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            arguments = _strings(entry / "cmdline")
        except OSError:
            continue
        if not arguments:
            continue
        try:
            pairs = (text.partition("=") for text in _strings(entry / "environ"))
            environment = {name: value for name, _, value in pairs}
        except OSError:
            environment = None
        net = _link(entry / "ns/net")
        elsewhere = None not in (net, own_net) and net != own_net
        yield Process(int(entry.name), arguments, environment, elsewhere)


def worker(process: Process) -> WorkerProcess | None:
    """The worker that the process is; None: it is none."""
    kind = _kind(process.arguments)
    if kind is None:
        return None
    options = _options(process.arguments)
    limit = _number(options.get("max-num-seqs"))
    engines = _number(options.get("data-parallel-size") or options.get("dp")) or 1
    dynamo = kind in _DYNAMO_MODULES
    environment = process.environment or {}
    return WorkerProcess(
        pid=process.pid,
        kind=kind,
        scheme="https" if "ssl-certfile" in options and not dynamo else "http",
        port=None if dynamo else int(_number(options.get("port")) or _VLLM_PORT),
        system_port=environment.get("DYN_SYSTEM_PORT") if dynamo else None,
        max_concurrency=limit * engines if limit else None,
        elsewhere=process.elsewhere,
    )


def listening_ports(proc: Path = PROC) -> list[int]:
    """TCP ports on which something listens on loopback or on every address."""
    ports = set()
    for name in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            address, _, port = fields[1].rpartition(":")
            if fields[3] == _LISTENING and _is_local(address):
                ports.add(int(port, 16))
    return sorted(ports)


def _kind(arguments: Sequence[str]) -> str | None:
    program, *rest = arguments
    if os.path.basename(program).startswith("python"):
        rest = list(dropwhile(lambda text: text.startswith("-"), rest))
        program, *rest = rest or [program]
    if os.path.basename(program) == "vllm" and rest[:1] == ["serve"]:
        return "vllm serve"
    for flag, module in pairwise(arguments):
        if flag == "-m" and (
            module in _DYNAMO_MODULES or module.startswith("vllm.entrypoints")
        ):
            return module
    return None


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Options, ``--name value`` or ``--name=value``; vLLM takes ``_`` for ``-``."""
    options: dict[str, str] = {}
    for text, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if text.startswith("-"):
            name, equals, value = text.lstrip("-").partition("=")
            options[name.replace("_", "-")] = value if equals else following
    return options


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() else None


def _strings(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", "replace")
    return text.rstrip("\0").split("\0") if text else []


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _is_local(address: str) -> bool:
    """Loopback or every address, in the byte order of /proc/net/tcp."""
    if len(address) == 8:
        return address == "00000000" or address.endswith("7F")
    return address in {"0" * 32, f"{'0' * 24}01000000", f"{'0' * 16}FFFF00000100007F"}
