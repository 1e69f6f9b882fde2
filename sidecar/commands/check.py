"""``check``: what would be found and published, and what is in the way."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Iterator

from sidecar import discovery, environment, memory, naming, sinks, tag
from sidecar.discovery import Discovered, Verdict
from sidecar.errors import SinkError
from sidecar.reading import NAMES, SIGNAL_PREFIX
from sidecar.sample import Sample
from sidecar.settings import Settings
from sidecar.signals import StopRequest
from sidecar.sinks.base import translating
from sidecar.target import Target
from sidecar.worker import read_once


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments: it checks the settings as they are."""
    del parser


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Print the findings; 0 when a worker was found and every sink answers."""
    del options
    stop.uninstall()
    loaded = environment.load()
    settings = loaded.settings
    discovery.refuse_bad_variables(settings, os.environ)
    used = [sinks.build(name, settings) for name in sinks.chosen(settings)]
    print("settings")
    for name, origin in sorted(loaded.origins.items()):
        print(f"  {name} is set{'' if origin == name else f' by {origin}'}")
    if not loaded.origins:
        print("  all defaults")
    if settings.state_file and (reason := memory.obstacle(settings.state_file)):
        print(f"  SIDECAR_STATE_FILE={settings.state_file}: {reason}")
    if not settings.enabled:
        print("  SIDECAR_ENABLED is false: run would poll and publish nothing")

    samples: dict[Target, Sample] = {}

    def probe(candidate: Target) -> Sample:
        samples[candidate] = read_once(candidate, settings)
        return samples[candidate]

    found = discovery.discover(discovery.sources(settings, os.environ), probe)
    print("workers")
    for line in _verdicts(found):
        print(f"  {line}")
    answering = [target for target in found.targets if target in samples]
    print("sinks")
    sinks_answer = True
    for sink in used:
        try:
            with translating():
                print(f"  ok    {sink.name}: {sink.check()}")
        except SinkError as error:
            sinks_answer = False
            print(f"  FAIL  {sink.name}: {error}")
        finally:
            sink.close()
    print("would publish")
    for line in _published(settings, found, samples):
        print(f"  {line}")
    workers_answer = bool(answering) and len(answering) == len(found.targets)
    return 0 if workers_answer and sinks_answer else 1


def _verdicts(found: Discovered) -> Iterator[str]:
    for verdict in found.verdicts:
        where = verdict.source
        if verdict.subject:
            where = f"{where}: {verdict.subject}"
        yield f"{_mark(verdict)}  {where}: {verdict.reason}"
    if not found.targets:
        yield "no worker found: start one, or set SIDECAR_TARGETS"


def _mark(verdict: Verdict) -> str:
    return "taken" if verdict.taken else "  -  "


def _published(
    settings: Settings, found: Discovered, samples: dict[Target, Sample]
) -> Iterator[str]:
    models = [(t, samples[t].model_name if t in samples else "") for t in found.targets]
    named = naming.identities(models, settings, socket.gethostname())
    for (target, _), identity in zip(models, named, strict=True):
        if target not in samples:
            yield f"nothing for {target.url} until it answers"
            continue
        labels = ", ".join(f'{name}="{value}"' for name, value in identity.all_labels)
        yield f"{SIGNAL_PREFIX}{identity.tag}{{{labels}}}"
        yield f"{', '.join(NAMES)} with the same labels"
        if identity.tag == tag.UNNAMED:
            yield "the page names no model: set SIDECAR_TAG"
    if not found.targets:
        yield "nothing"
