"""What is published for one worker at one time, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from sidecar.exposition import Labels
from sidecar.states import State

SIGNAL_PREFIX = "num_loaded_models_"
STATE = "llm_worker_state"
OWN_LABELS = ("tag", "model_name", "worker", "state")


@dataclass(frozen=True)
class Values:
    """The numbers of a reading; None where there is none to publish.

    Attributes:
        published: the signal, max(minimum, capacity × multiplier).
        capacity, capacity_lower, capacity_upper, throughput, demand: requests/s.
        utilization: load over capacity; 1 is full, above 1 a queue grows.
        running, waiting, concurrency_limit: requests.
    """

    state: State
    published: float | None = None
    capacity: float | None = None
    capacity_lower: float | None = None
    capacity_upper: float | None = None
    utilization: float | None = None
    throughput: float | None = None
    demand: float | None = None
    running: float | None = None
    waiting: float | None = None
    concurrency_limit: float | None = None


@dataclass(frozen=True)
class Identity:
    """Who a reading is of. No two workers and no two models share one.

    Attributes:
        labels: the operator's own, beside tag, model_name and worker.
    """

    tag: str
    model_name: str
    worker: str
    labels: Labels = ()

    @property
    def all_labels(self) -> Labels:
        """Every label of this worker's series; an empty value is left out."""
        own = (
            ("tag", self.tag),
            ("model_name", self.model_name),
            ("worker", self.worker),
        )
        return tuple(pair for pair in (*own, *self.labels) if pair[1])


@dataclass(frozen=True)
class Reading:
    """The values of one worker at one time (Unix seconds)."""

    identity: Identity
    time: float
    values: Values
    method: str = ""


@dataclass(frozen=True)
class Gauge:
    """One published number."""

    name: str
    help: str
    value: float
    labels: Labels


_NAMES = (
    ("capacity", "llm_worker_capacity", "Requests per second the worker can sustain."),
    (
        "capacity_lower",
        "llm_worker_capacity_lower",
        "Lower end of the 80 % interval of the capacity, requests per second.",
    ),
    (
        "capacity_upper",
        "llm_worker_capacity_upper",
        "Upper end of the 80 % interval of the capacity, requests per second.",
    ),
    (
        "utilization",
        "llm_worker_utilization",
        "Load over capacity; 1 is full, above 1 a queue grows.",
    ),
    ("throughput", "llm_worker_throughput", "Requests completed per second."),
    ("demand", "llm_worker_demand", "Requests arriving per second."),
    ("running", "llm_worker_running", "Requests running in the engine."),
    ("waiting", "llm_worker_waiting", "Requests waiting for a slot."),
    (
        "concurrency_limit",
        "llm_worker_concurrency_limit",
        "The most requests that the engine will run at once.",
    ),
)
TIMESTAMP = "llm_worker_reading_timestamp_seconds"
SIGNAL_HELP = "Capacity times the multiplier: what one worker counts for."

NAMES = (*(name for _, name, _ in _NAMES), STATE, TIMESTAMP)
"""Every fixed name that is published; the signal's is ``SIGNAL_PREFIX`` + tag."""


def gauges(reading: Reading) -> Iterator[Gauge]:
    """The published numbers of a reading; none in the states that publish nothing."""
    values, labels = reading.values, reading.identity.all_labels
    if values.state in {State.BASELINE, State.UNREACHABLE}:
        return
    if values.published is not None and isfinite(values.published):
        signal = SIGNAL_PREFIX + reading.identity.tag
        yield Gauge(signal, SIGNAL_HELP, values.published, labels)
    for attribute, name, text in _NAMES:
        value = getattr(values, attribute)
        if value is not None and isfinite(value):
            yield Gauge(name, text, value, labels)
    state = (*labels, ("state", str(values.state)))
    yield Gauge(STATE, "1 for the state the worker is in.", 1.0, state)
    yield Gauge(TIMESTAMP, "When the worker was read, Unix time.", reading.time, labels)
