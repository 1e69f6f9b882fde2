"""The agent: finds the workers, polls them in step, hands readings to the sinks."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from structlog.typing import FilteringBoundLogger

from sidecar import discovery, naming, tag
from sidecar.discovery import Discovered, Source
from sidecar.log import Changes
from sidecar.memory import Memory
from sidecar.reading import Identity, Reading
from sidecar.sample import Sample
from sidecar.schedule import next_tick, wait_until
from sidecar.settings import Settings
from sidecar.sinks.publisher import Publisher
from sidecar.states import State
from sidecar.target import Target
from sidecar.telemetry import Telemetry
from sidecar.together import together
from sidecar.worker import Worker, read_once

AWAY_POLLS = 3
"""Failed polls in a row after which a worker may have moved."""

LOOK_AGAIN = 60.0
"""Seconds after which to look for further workers, and for new command lines."""


class Agent:
    """One process's work. ``tick`` is one turn of the loop, and can be called by hand.

    Args:
        sources: the discovery sources, anew at each look.
        memory: where what was learned is kept; None: nowhere.
        beat: called by the loop before the first turn, after each, and while it waits
            for the next one at least every ``beat_interval`` seconds.
        clock, wall: monotonic and Unix time.
    """

    def __init__(
        self,
        settings: Settings,
        publishers: Sequence[Publisher],
        telemetry: Telemetry,
        log: FilteringBoundLogger,
        *,
        environ: Mapping[str, str] | None = None,
        sources: Callable[[], Iterator[Source]] | None = None,
        hostname: str | None = None,
        memory: Memory | None = None,
        beat: Callable[[], None] | None = None,
        beat_interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.publishers = publishers
        self.workers: list[Worker] = []
        self.discovered = Discovered((), ())
        self.last_turn = clock()
        self.ready = not settings.enabled
        self.fault: Exception | None = None
        self._telemetry = telemetry
        self._log = log
        self._changes = Changes(log, clock)
        self._sources = sources or partial(
            discovery.sources, settings, os.environ if environ is None else environ
        )
        self._hostname = hostname or socket.gethostname()
        self._memory = memory
        self._beat = beat or (lambda: None)
        self._beat_interval = beat_interval or math.inf
        self._clock = clock
        self._wall = wall
        self._look_at = clock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the loop turned lately."""
        if not self.settings.enabled:
            return True
        slowest = 3 * (self.settings.poll_interval + self.settings.scrape_limit)
        return self._clock() - self.last_turn <= slowest

    def tick(self) -> list[Reading]:
        """Look for workers if that is due, poll all, hand the readings on."""
        if self._is_time_to_look():
            self._look()
        together([partial(self._poll, worker) for worker in self.workers])
        readings = self._readings()
        for publisher in self.publishers:
            publisher.offer(readings)
        self._retire_the_away()
        self._remember()
        self.last_turn = self._clock()
        return readings

    def start(self) -> None:
        """Loop on a thread, and the sinks on theirs."""
        for publisher in self.publishers:
            publisher.start()
        self._thread = threading.Thread(
            target=self.run, args=[self._stop], name="sidecar-loop", daemon=True
        )
        self._thread.start()

    def run(self, stop: threading.Event) -> None:
        """Tick in step with the clock until asked to stop; late ticks are skipped.

        Where the sidecar is disabled, it only beats.
        """
        started = self._clock()
        # Up already: the first look may take as long as a worker or a name server does.
        self._beat()
        while not stop.is_set():
            try:
                if self.settings.enabled:
                    self.tick()
                self.fault = None
            except Exception as error:
                # A fault of ours must not leave the worker unwatched.
                self._log.exception("a fault in the loop; going on")
                self.fault, self.last_turn = error, self._clock()
            self._beat()
            due = next_tick(started, self.settings.poll_interval, self._clock())
            wait_until(due, stop, self._clock, self._beat, self._beat_interval)

    def stop(self, timeout: float) -> None:
        """End the loop and retire all series, for at most ``timeout`` seconds.

        Safe without ``start`` and twice.
        """
        deadline = self._clock() + timeout
        self._stop.set()
        for worker in list(self.workers):
            worker.abort()
        if self._thread is not None:
            self._thread.join(timeout / 4)
        if self._thread is None or not self._thread.is_alive():
            for worker in self.workers:
                worker.close()
            self._remember(now=True)
        for publisher in self.publishers:
            publisher.stop()
        for publisher in self.publishers:
            if not publisher.join(deadline - self._clock()):
                name = publisher.sink.name
                self._log.warning(f"{name} did not end in time")

    def _remember(self, *, now: bool = False) -> None:
        if self._memory:
            known = [(w.sample, w.pipeline.learning) for w in self.workers]
            self._memory.keep([(s, each) for s, each in known if s and each], now=now)

    def _poll(self, worker: Worker) -> None:
        with self._telemetry.poll_seconds.time():
            worker.poll()

    def _is_time_to_look(self) -> bool:
        if self._clock() < self._look_at:
            return False
        # A worker that just failed may be moving: found now, it would be taken for
        # another one.
        return not any(0 < w.failures < AWAY_POLLS for w in self.workers)

    def _look(self) -> None:
        known = {worker.target.place: worker for worker in self.workers}

        def probe(target: Target) -> Sample:
            worker = known.get(target.place)
            if worker and worker.sample and worker.failures == 0:
                return worker.sample
            return read_once(target, self.settings)

        self.discovered = discovery.discover(self._sources(), probe)
        self._reconcile(self.discovered.targets)
        self._look_at = self._clock() + self._patience()
        if not self.workers:
            self._say_nothing_found()

    def _patience(self) -> float:
        """Seconds until the next look."""
        interval = self.settings.poll_interval
        if not self.workers:
            return 0.0
        if self.discovered.final:
            return LOOK_AGAIN
        if any(worker.failures for worker in self.workers):
            return AWAY_POLLS * interval
        return max(LOOK_AGAIN, AWAY_POLLS * interval)

    def _reconcile(self, targets: Sequence[Target]) -> None:
        """Known workers stay, those that are away may have moved, others are new."""
        known = {worker.target.place: worker for worker in self.workers}
        away = [w for w in self.workers if w.failures >= AWAY_POLLS]
        for target in targets:
            worker = known.get(target.place)
            if worker is None and away:
                worker = away.pop(0)
                self._log.info(f"the worker at {worker.target.url} is now {target.url}")
            if worker is None:
                recall = self._memory.recall if self._memory else None
                worker = Worker(target, self.settings, self._clock, recall)
                self.workers.append(worker)
                self._log.info(f"watching {target.url} ({target.origin})")
            elif worker.target != target:
                worker.move(target)
            if worker in away:
                away.remove(worker)

    def _readings(self) -> list[Reading]:
        """The readings of this tick; series that got another identity are retired."""
        for worker in self.workers:
            self._note(worker)
        models = [
            (w.target, w.sample.model_name if w.sample else "") for w in self.workers
        ]
        named = naming.identities(models, self.settings, self._hostname)
        readings = []
        for worker, identity in zip(self.workers, named, strict=True):
            if worker.identity not in (None, identity):
                self._retire(worker)
            if worker.state in {State.BASELINE, State.UNREACHABLE}:
                continue
            if worker.identity is None:
                self._say_tag(identity)
            worker.identity = identity
            worker.last_reading = self._clock()
            estimate = worker.pipeline.estimate
            method = estimate.method if estimate else ""
            readings.append(Reading(identity, self._wall(), worker.values, method))
        return readings

    def _say_tag(self, identity: Identity) -> None:
        """Say where a tag is not what an operator would make of the model's name."""
        name, used = identity.model_name, identity.tag
        if self.settings.tag or self.settings.model_identifier:
            return
        if not name.strip():
            text = f"{identity.worker} names no model: its tag is {used}"
            self._log.warning(f"{text}; set SIDECAR_TAG")
        elif used != tag.sanitize(name):
            text = f"the model {name!r} has the tag {used}, with a hash"
            self._log.warning(f"{text}: another model's name gives the same tag")

    def _retire_the_away(self) -> None:
        for worker in list(self.workers):
            since = worker.last_reading or worker.last_success
            if since is None or self._clock() - since <= self.settings.longest_gap:
                continue
            self._retire(worker)
            if worker.error is not None and not self.discovered.final:
                self.workers.remove(worker)
                worker.close()
                self._look_at = self._clock()
                self._changes.forget(worker.target.url)

    def _retire(self, worker: Worker) -> None:
        if worker.identity is not None:
            for publisher in self.publishers:
                publisher.retire([worker.identity])
            self._log.info(f"series of {worker.identity.worker} retired")
            worker.identity = None

    def _note(self, worker: Worker) -> None:
        """Count the poll, and say what changed."""
        url = worker.target.url
        if worker.error is not None:
            self._telemetry.polls.labels(worker.error.reason).inc()
            if self._stop.is_set():
                return
            level = "warning" if worker.last_success else "info"
            text = f"no reading from {url}: {worker.error}"
            self._changes.say(url, worker.error.reason, level, text, worker=url)
            if worker.failures == AWAY_POLLS:
                self._look_at = self._clock()
            return
        self.ready = True
        self._telemetry.polls.labels("ok").inc()
        self._telemetry.last_poll_success.set(self._wall())
        state = worker.state
        self._changes.say(url, str(state), "info", f"{url} is {state}", worker=url)

    def _say_nothing_found(self) -> None:
        reasons = [
            f"{v.subject or v.source}: {v.reason}" for v in self.discovered.verdicts
        ]
        text = "no worker found yet; capacity-sidecar check tells more"
        self._changes.say("discovery", "none", "info", text, candidates=reasons)
