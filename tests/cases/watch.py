"""The whole agent, driven by hand: time is what the case says it is."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sidecar import environment, log
from sidecar.agent import Agent
from sidecar.estimators.base import Estimate, Estimator
from sidecar.interval import Interval
from sidecar.log import Changes
from sidecar.reading import Identity, Reading
from sidecar.sample import Sample
from sidecar.sinks.base import Sink
from sidecar.sinks.publisher import Publisher
from sidecar.telemetry import Telemetry
from sidecar.worker import Worker
from tests.cases.adapter import Poll

Step = dict[str, Any]


@dataclass
class Time:
    """A monotonic and a wall clock that stand until they are set."""

    mono: float = 0.0
    wall: float = 1.7e9

    def at(self, step: Step) -> None:
        """Set both as the step of a case says."""
        self.wall += step["mono"] - self.mono
        self.mono = float(step["mono"])
        if "wall" in step:
            text = step["wall"].replace("Z", "+00:00")
            self.wall = datetime.fromisoformat(text).timestamp()


@dataclass
class Recorder:
    """A sink that keeps what it gets until it is asked for it."""

    name: str = "recorder"
    interval: float = 0.0
    got: list[Reading] = field(default_factory=list)

    def check(self) -> str:
        """It is always there."""
        return "here"

    def publish(self, readings: Sequence[Reading]) -> None:
        """Keep them."""
        self.got += readings

    def retire(self, identities: Sequence[Identity]) -> None:
        """Nothing is shown, so nothing is taken away."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Tapped:
    """An estimator that also keeps the interval that it was last fed."""

    estimator: Estimator[Any]
    fed: Interval | None = None

    def start(self) -> Any:
        """As the estimator starts."""
        return self.estimator.start()

    def step(self, state: Any, interval: Interval) -> tuple[Any, Estimate | None]:
        """As the estimator goes on."""
        self.fed = interval
        return self.estimator.step(state, interval)


class Watch:
    """An agent with one recording sink, or another one.

    Attributes:
        time: what its clocks show.
        readings: what left for the sink at the last tick.
        waits: the seconds for which ``play`` would have slept.
    """

    def __init__(
        self,
        targets: Sequence[str],
        sink: Callable[[Any], Sink] | None = None,
        **settings: Any,
    ) -> None:
        fixed: dict[str, Any] = {"targets": tuple(targets), "listen": "off"}
        self.settings = environment.load({}, **fixed, **settings).settings
        self.time = Time()
        self.readings: list[Reading] = []
        self.waits: list[float] = []
        self._samples: dict[Worker, Sample | None] = {}
        self.telemetry = Telemetry()
        self._log = io.StringIO()
        self._recorder = Recorder()
        used = sink(self.settings) if sink else self._recorder
        logger = log.logger(self.settings, self._log)
        changes = Changes(logger, self._mono)
        self.publisher = Publisher(used, self.telemetry, changes, self._mono)
        self.agent = Agent(
            self.settings,
            [self.publisher],
            self.telemetry,
            logger,
            environ={},
            hostname="node-1",
            clock=self._mono,
            wall=lambda: self.time.wall,
        )

    @property
    def log(self) -> list[str]:
        """The log lines so far."""
        return self._log.getvalue().splitlines()

    @property
    def is_well(self) -> bool:
        """Whether the loop turns, and no fault of ours was caught on the way."""
        return self.agent.is_alive and not any("fault" in line for line in self.log)

    def worker(self, index: int = 0) -> Worker:
        """One of the workers, in the order of the targets."""
        return self.agent.workers[index]

    def tick(self, mono: float) -> list[Poll]:
        """One turn at this time: a poll of each worker."""
        self.time.at({"mono": mono})
        self.agent.tick()
        return self._polls()

    def play(
        self, steps: Sequence[Step], prepare: Callable[[Step], None]
    ) -> list[Poll]:
        """Run the loop over all steps of a case with one worker."""
        polls: list[Poll] = []
        left = iter(steps)

        def begin() -> bool:
            step = next(left, None)
            if step is not None:
                self.time.at(step)
                prepare(step)
            return step is not None

        def slept(seconds: float) -> bool:
            self.waits.append(seconds)
            polls.extend(self._polls())
            return begin()

        begin()
        self.agent.run(_Steps(slept))
        return polls

    def close(self) -> None:
        """Stop the agent."""
        self.agent.stop(1.0)

    def _mono(self) -> float:
        return self.time.mono

    def _polls(self) -> list[Poll]:
        """The polls that the agent just made, after handing its readings on."""
        self._recorder.got.clear()
        self.publisher.turn()
        self.readings = [*self._recorder.got]
        return [self._poll(worker) for worker in self.agent.workers]

    def _poll(self, worker: Worker) -> Poll:
        tap, before = worker.pipeline.estimator, self._samples.get(worker)
        self._samples[worker] = worker.sample
        # A worker's first poll feeds nothing yet.
        fed = tap.fed if isinstance(tap, Tapped) else None
        worker.pipeline.use(Tapped(tap.estimator if isinstance(tap, Tapped) else tap))
        alone = len(self.agent.workers) == 1
        own = [r for r in self.readings if alone or r.identity == worker.identity]
        return Poll.of(worker, before, fed, own)


class _Steps(threading.Event):
    """In place of sleeping, go on to the next step; after the last one, stop."""

    def __init__(self, slept: Callable[[float], bool]) -> None:
        super().__init__()
        self._slept = slept

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self._slept(timeout):
            self.set()
        return self.is_set()
