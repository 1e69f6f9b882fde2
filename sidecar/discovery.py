"""Where the workers are: candidates in a fixed order, each with a verdict.

The first source that gives an answer wins: ``SIDECAR_TARGETS``,
``SIDECAR_METRICS_PORT``, Dynamo's ``DYN_SYSTEM_PORT``, the process table, the usual
ports, and with ``SIDECAR_DISCOVERY=ports`` every listening port. What the operator
set is believed before it answers; what was merely found must show a worker's page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sidecar import processes, target
from sidecar.errors import ScrapeError, SettingsError
from sidecar.processes import Process, WorkerProcess
from sidecar.sample import Sample
from sidecar.settings import Settings
from sidecar.target import Target
from sidecar.together import together

USUAL_PORTS = (8000, 9090, 8081)
"""vLLM's API; Dynamo's system port in its own charts, twice."""

HIGHEST_SYSTEM_PORT = 32767
_SYSTEM_PORT = re.compile(r"DYN_SYSTEM_PORT(\d*)")

Probe = Callable[[Target], Sample]
"""Reads a target once; raises ``ScrapeError``."""


@dataclass(frozen=True)
class Source:
    """Candidates of one origin.

    Attributes:
        decided: the operator set them: they are the answer, whether they answer or not.
        notes: why something that looks like a candidate is none.
    """

    name: str
    targets: tuple[Target, ...] = ()
    decided: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of one candidate, or of a source without any."""

    source: str
    subject: str
    taken: bool
    reason: str


@dataclass(frozen=True)
class Discovered:
    """The targets to read, and every verdict on the way there.

    Attributes:
        final: the operator set the targets: they stay, whether they answer or not.
    """

    targets: tuple[Target, ...]
    verdicts: tuple[Verdict, ...]
    final: bool = False


def sources(
    settings: Settings,
    environ: Mapping[str, str],
    table: Callable[[], Iterator[Process]] = processes.processes,
    ports: Callable[[], list[int]] = processes.listening_ports,
) -> Iterator[Source]:
    """The sources in order; the later ones are looked at only when asked for.

    Raises:
        SettingsError: a Dynamo variable that the worker itself would refuse.
    """
    for source in _sources(settings, environ, table, ports):
        yield _with_limits(source, table) if source.decided else source


def _sources(
    settings: Settings,
    environ: Mapping[str, str],
    table: Callable[[], Iterator[Process]],
    ports: Callable[[], list[int]],
) -> Iterator[Source]:
    yield Source(
        "SIDECAR_TARGETS",
        tuple(target.parse(text, "SIDECAR_TARGETS") for text in settings.targets),
        decided=True,
    )
    port = settings.metrics_port
    by_port = (target.local(port, "SIDECAR_METRICS_PORT"),) if port else ()
    yield Source("SIDECAR_METRICS_PORT", by_port, decided=True)
    yield _from_dynamo(environ)
    yield _from_processes(table())
    usual = tuple(target.local(port, "usual ports") for port in USUAL_PORTS)
    yield Source("usual ports", usual)
    if settings.discovery == "ports":
        known = {*USUAL_PORTS}
        if settings.listen != "off":
            known.add(target.listen_address(settings.listen)[1])
        found = [port for port in ports() if port not in known]
        listening = tuple(target.local(port, "listening ports") for port in found)
        yield Source("listening ports", listening)


def discover(found: Iterator[Source], probe: Probe) -> Discovered:
    """Ask the candidates, source by source, until one source gives an answer."""
    verdicts: list[Verdict] = []
    for source in found:
        verdicts += [Verdict(source.name, "", False, note) for note in source.notes]
        if not source.targets and not source.notes:
            reason = "not set" if source.decided else "nothing found"
            verdicts.append(Verdict(source.name, "", False, reason))
        taken = []
        for candidate, (answers, reason) in _answers(source.targets, probe):
            accepted = answers or source.decided
            if accepted:
                taken.append(candidate)
            subject = candidate.url
            if candidate.origin != source.name:
                subject += f" ({candidate.origin})"
            verdicts.append(Verdict(source.name, subject, accepted, reason))
        if taken:
            return Discovered(tuple(taken), tuple(verdicts), final=source.decided)
    return Discovered((), tuple(verdicts))


def refuse_bad_variables(settings: Settings, environ: Mapping[str, str]) -> None:
    """Say at the start what ``sources`` would say later.

    Raises:
        SettingsError: a Dynamo variable that is looked at and that Dynamo would refuse.
    """
    if not settings.targets and not settings.metrics_port:
        _from_dynamo(environ)


def system_port(name: str, value: str) -> int | None:
    """A port from a variable of Dynamo's, by Dynamo's rules; None: no known port.

    The worker reads a signed 16 bit number: empty is unset, -1 switches the page off,
    0 lets the system choose. Anything else it refuses to start with.

    Raises:
        SettingsError: the worker would not start with it either.
    """
    text = value.strip()
    if not text:
        return None
    number = int(text) if re.fullmatch(r"-?[0-9]{1,6}", text) else None
    if number is None or not -1 <= number <= HIGHEST_SYSTEM_PORT:
        msg = f"{name}={value!r} is not a port that Dynamo accepts: -1 (off) to"
        hint = f"for example {name}=8081, or set SIDECAR_METRICS_PORT"
        raise SettingsError(f"{msg} {HIGHEST_SYSTEM_PORT}; {hint}")
    return number if number > 0 else None


def _from_dynamo(environ: Mapping[str, str]) -> Source:
    names = [name for name in environ if _SYSTEM_PORT.fullmatch(name)]
    names.sort(key=lambda name: int(name.removeprefix("DYN_SYSTEM_PORT") or 0))
    targets: list[Target] = []
    notes: list[str] = []
    problems: list[str] = []
    for name in names:
        try:
            port = system_port(name, environ[name])
        except SettingsError as error:
            problems += error.problems
            continue
        if port is not None:
            targets.append(target.local(port, name))
        elif environ[name].strip():
            notes.append(_no_port(name, environ[name].strip()))
    if problems:
        raise SettingsError(*problems)
    return Source("DYN_SYSTEM_PORT", tuple(targets), bool(targets), tuple(notes))


def _no_port(name: str, value: str) -> str:
    if value == "0":
        return f"{name}=0 lets the system choose a port: set one, {name}=8081"
    return f"{name}={value} switches the worker's page off: set a port, {name}=8081"


def _from_processes(table: Iterator[Process]) -> Source:
    targets: list[Target] = []
    notes: list[str] = []
    for found in filter(None, map(processes.worker, table)):
        try:
            candidate = _of_process(found)
        except (SettingsError, ValueError) as error:
            notes.append(f"{found.kind}, process {found.pid}: {error}")
            continue
        if candidate.place not in {each.place for each in targets}:
            targets.append(candidate)
    return Source("process table", tuple(targets), notes=tuple(notes))


def _with_limits(source: Source, table: Callable[[], Iterator[Process]]) -> Source:
    """The source, its targets with what the command lines of workers here show."""
    if not any(each.is_loopback for each in source.targets):
        return source
    here = _from_processes(table()).targets
    limits = {each.port: each.max_concurrency for each in here}
    informed = (
        replace(each, max_concurrency=limits.get(each.port))
        if each.is_loopback
        else each
        for each in source.targets
    )
    return replace(source, targets=tuple(informed))


def _of_process(found: WorkerProcess) -> Target:
    """The page of a worker process.

    Raises:
        SettingsError, ValueError: it has none that could be read; the reason.
    """
    port = found.port
    if found.elsewhere:
        msg = "it is in another network namespace (a container?): publish its port and"
        raise ValueError(f"{msg} set SIDECAR_TARGETS")
    if port is None:
        if found.system_port is None:
            msg = "DYN_SYSTEM_PORT is not in its environment or cannot be read: set"
            raise ValueError(f"{msg} SIDECAR_METRICS_PORT to the worker's system port")
        port = system_port("DYN_SYSTEM_PORT", found.system_port)
        if port is None:
            raise ValueError(_no_port("DYN_SYSTEM_PORT", found.system_port.strip()))
    origin = f"{found.kind}, process {found.pid}"
    here = target.local(port, origin, max_concurrency=found.max_concurrency)
    return replace(here, scheme=found.scheme)


def _answers(
    candidates: tuple[Target, ...], probe: Probe
) -> list[tuple[Target, tuple[bool, str]]]:
    """All candidates asked at once, in their order."""
    answers: dict[Target, tuple[bool, str]] = {}

    def ask(candidate: Target) -> None:
        answers[candidate] = _ask(candidate, probe)

    together([partial(ask, candidate) for candidate in candidates])
    return [(candidate, answers[candidate]) for candidate in candidates]


def _ask(candidate: Target, probe: Probe) -> tuple[bool, str]:
    try:
        sample = probe(candidate)
    except ScrapeError as error:
        return False, str(error)
    model = f", model {sample.model_name}" if sample.model_name else ""
    return True, f"a {sample.engine} worker{model}"
