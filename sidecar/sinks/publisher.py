"""One sink's thread: keeps the newest readings and sends them at the sink's pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from math import inf

from sidecar.errors import SinkError
from sidecar.log import Changes
from sidecar.reading import Identity, Reading
from sidecar.sinks.base import Sink, translating
from sidecar.telemetry import Telemetry

EARLY = 0.1
"""Of the interval: a reading that comes so much too early is sent all the same, for to
wait for the next one would cost a whole poll. Publications are no closer than that."""

RETIRE_AGAIN = 5.0
"""Seconds between two attempts to take series away."""


class Publisher:
    """Takes readings from the loop without ever making it wait.

    Only the newest reading of each worker is kept: what could not be sent is dropped
    and counted, never sent late. A reading is sent when it comes or not at all, so that
    none is old when it arrives. ``turn`` does by hand what the thread does.
    """

    def __init__(
        self,
        sink: Sink,
        telemetry: Telemetry,
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink = sink
        self.last_error: str | None = None
        self.last_success: float | None = None
        self._telemetry = telemetry
        self._changes = changes
        self._clock = clock
        self._pending: dict[Identity, Reading] = {}
        self._leaving: set[Identity] = set()
        self._published: set[Identity] = set()
        self._schedule = self._not_before = -inf
        self._retire_at = 0.0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def offer(self, readings: Iterable[Reading]) -> None:
        """Readings to publish; they replace older ones of the same workers."""
        with self._changed:
            if self._stopping:
                return
            for reading in readings:
                self._pending[reading.identity] = reading
                self._leaving.discard(reading.identity)
            self._changed.notify()

    def retire(self, identities: Iterable[Identity]) -> None:
        """Workers whose series are to be taken away."""
        with self._changed:
            for identity in identities:
                self._pending.pop(identity, None)
                if identity in self._published:
                    self._leaving.add(identity)
            self._changed.notify()

    def turn(self) -> None:
        """Take away what is to go, then publish if that is due."""
        with self._changed:
            now = self._clock()
            leaving: set[Identity] = set()
            if now >= self._retire_at or self._stopping:
                leaving, self._leaving = self._leaving, set()
            readings: list[Reading] = []
            if self._pending and now >= self._not_before:
                readings = list(self._pending.values())
                self._published |= self._pending.keys()
                self._plan(now)
            self._pending = {}
        if leaving:
            self._retire(leaving)
        if readings:
            self._publish(readings)

    def start(self) -> None:
        """Publish on a thread from now on."""
        name = f"sidecar-{self.sink.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Retire everything that was published, and end; does not wait.

        Safe without ``start`` and twice.
        """
        with self._changed:
            self._stopping = True
            self._pending.clear()
            self._leaving |= self._published
            self._changed.notify()
        if self._thread is None:
            self.turn()
            self.sink.close()

    def join(self, timeout: float) -> bool:
        """Wait for the end after ``stop``, so many seconds; whether it came."""
        if self._thread is None:
            return True
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._is_due() or self._stopping):
                    self._changed.wait(self._patience())
                stopping = self._stopping
            self.turn()
            if stopping:
                self.sink.close()
                return

    def _is_due(self) -> bool:
        patience = self._patience()
        return patience is not None and patience <= 0

    def _patience(self) -> float | None:
        """Seconds until there is something to do; None: until something comes."""
        times = [-inf] if self._pending else []
        if self._leaving:
            times.append(self._retire_at)
        return max(0.0, min(times) - self._clock()) if times else None

    def _plan(self, now: float) -> None:
        """When to publish again: on the schedule; what was missed is skipped."""
        interval = self.sink.interval
        on_time = self._schedule + interval
        self._schedule = on_time if on_time > now else now + interval
        early = EARLY * interval
        self._not_before = max(self._schedule, now + interval) - early

    def _publish(self, readings: list[Reading]) -> None:
        telemetry, name = self._telemetry, self.sink.name
        try:
            with telemetry.publish_seconds.labels(name).time(), translating():
                self.sink.publish(readings)
        except SinkError as error:
            telemetry.publishes.labels(name, "failed").inc()
            dropped = len(readings) if error.dropped is None else error.dropped
            telemetry.dropped.labels(name, error.reason).inc(dropped)
            self._say_failed("publish", error)
            return
        telemetry.publishes.labels(name, "ok").inc()
        self.last_error, self.last_success = None, self._clock()
        self._changes.say(name, "ok", "info", f"publishing to {name}", sink=name)

    def _retire(self, identities: set[Identity]) -> None:
        self._published -= identities
        try:
            with translating():
                self.sink.retire(sorted(identities, key=lambda i: (i.worker, i.tag)))
        except SinkError as error:
            self._say_failed("retire", error)
            with self._changed:
                # Series that stay would be believed: try again, unless they are back.
                self._leaving |= identities - self._pending.keys() - self._published
                self._published |= self._leaving
                self._retire_at = self._clock() + RETIRE_AGAIN

    def _say_failed(self, what: str, error: SinkError) -> None:
        self.last_error = str(error)
        reason = f"{what} {error.reason}"
        name = self.sink.name
        text = f"{name}: cannot {what}: {error}"
        self._changes.say(name, reason, "warning", text, sink=name, reason=error.reason)
