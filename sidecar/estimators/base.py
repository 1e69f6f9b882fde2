"""What an estimator is: a pure function of what it knows and one more interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from sidecar.interval import Interval

S = TypeVar("S")


@dataclass(frozen=True)
class Estimate:
    """How much the worker could do.

    Attributes:
        capacity: requests/s at the concurrency limit with the present request mix.
        lower, upper: the 80 % interval of the capacity, where the method has one.
        concurrency_limit: the most requests that the worker will run, where known.
        limited_by: what sets that limit, in words.
        evidence: completions that the estimate rests on, requests.
        method: how the number came about, in words.
    """

    capacity: float
    lower: float | None = None
    upper: float | None = None
    concurrency_limit: float | None = None
    limited_by: str = ""
    evidence: float = 0.0
    method: str = ""


class Estimator(Protocol[S]):
    """Learns a worker's capacity from its intervals.

    ``step`` has no side effect and knows no clock: the same state and interval give
    the same result. The state is immutable and of bounded size.
    """

    def start(self) -> S:
        """What is known before the first interval."""
        ...

    def step(self, state: S, interval: Interval) -> tuple[S, Estimate | None]:
        """One more interval; None while there is nothing to say.

        Intervals come in order. Nothing is fed while the worker sleeps or stalls.
        """
        ...


@runtime_checkable
class Lasting(Estimator[Any], Protocol):
    """An estimator whose state can be kept in a file; it need not be one."""

    def to_json(self, state: Any) -> Any:
        """What is worth keeping, as JSON has it."""
        ...

    def from_json(self, data: Any) -> Any:
        """The state to start with.

        Raises:
            ValueError: the data are not what ``to_json`` gives.
        """
        ...

    def estimate(self, state: Any) -> Estimate | None:
        """What the state says before the first interval."""
        ...


@dataclass(frozen=True)
class Learning(Generic[S]):
    """An estimator with what it has learned so far."""

    estimator: Estimator[S]
    state: S
    estimate: Estimate | None = None

    @classmethod
    def begin(cls, estimator: Estimator[S]) -> Learning[S]:
        """Knowing nothing."""
        return cls(estimator, estimator.start())

    def after(self, interval: Interval) -> Learning[S]:
        """Knowing one more interval. An estimate, once there, is held."""
        state, estimate = self.estimator.step(self.state, interval)
        return Learning(self.estimator, state, estimate or self.estimate)
