"""What a sink is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from sidecar.errors import SinkError
from sidecar.reading import Identity, Reading


class Sink(Protocol):
    """A destination. Called from one thread at a time, never from the polling one.

    ``publish`` gets at most one reading a worker, each newer than the last one of that
    worker; ``retire`` may name workers that were never published, and may be called
    again for the same ones.

    Attributes:
        name: as in ``SIDECAR_SINKS``.
        interval: seconds between two publications; 0: whenever there are readings.
    """

    name: str
    interval: float

    def check(self) -> str:
        """Reach the destination without publishing; a sentence that says what is there.

        Raises:
            SinkError: it cannot be reached or would refuse.
        """
        ...

    def publish(self, readings: Sequence[Reading]) -> None:
        """Send the readings.

        Raises:
            SinkError: some or all were not taken; they are not sent again.
        """
        ...

    def retire(self, identities: Sequence[Identity]) -> None:
        """Take the workers' series away.

        Raises:
            SinkError: they could not be taken away.
        """
        ...

    def close(self) -> None:
        """Let go of connections; nothing is published after it. Safe twice."""
        ...


@contextmanager
def translating() -> Iterator[None]:
    """A fault of a sink's own must not end what uses it: it is the sink's trouble."""
    try:
        yield
    except SinkError:
        raise
    except Exception as error:
        msg = f"a fault in the sink, {type(error).__name__}: {error}"
        raise SinkError(msg, reason="fault") from error
