"""Failures that are to come."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import grpc
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from tests.gcp import answers

EVERY_METHOD = "*"

WRITING = "CreateTimeSeries"


@dataclass
class Injection:
    """What happens to the next calls.

    Attributes:
        method: ``CreateTimeSeries`` say, or ``EVERY_METHOD``.
        answer: the status they end with; None: they get no answer.
        times: calls that are left; None: all.
        after_writing: what the call asks for is done first.
    """

    method: str
    answer: Status | None
    times: int | None
    after_writing: bool


class Failing:
    """A service that can be told to fail; the first told that fits a call is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Injection] = []

    def fail(
        self,
        code: grpc.StatusCode,
        message: str = "",
        *,
        times: int | None = 1,
        after_writing: bool = False,
        method: str = WRITING,
    ) -> None:
        """The next calls of the method end with this code; see `fail_with`."""
        answer = answers.status(code, message)
        self.fail_with(answer, times=times, after_writing=after_writing, method=method)

    def fail_with(
        self,
        answer: Status,
        *,
        times: int | None = 1,
        after_writing: bool = False,
        method: str = WRITING,
    ) -> None:
        """The next calls of the method get this answer, one of `answers` say.

        Args:
            times: how many calls; None: all until `recover`.
            after_writing: the points are stored first, as when a 504 was written.
            method: or ``EVERY_METHOD``.
        """
        self._add(Injection(method, answer, times, after_writing))

    def hang(
        self,
        times: int | None = 1,
        *,
        after_writing: bool = False,
        method: str = WRITING,
    ) -> None:
        """The next calls get no answer before the client's deadline or the end."""
        self._add(Injection(method, None, times, after_writing))

    def recover(self) -> None:
        """Calls that come from now on are served."""
        with self._lock:
            self._waiting.clear()

    def next_injection(self, method: str) -> Injection | None:
        """What happens to this call; None: nothing. Counts it."""
        with self._lock:
            for each in self._waiting:
                if each.method in (method, EVERY_METHOD):
                    if each.times is not None:
                        each.times -= 1
                        if each.times <= 0:
                            self._waiting.remove(each)
                    return each
        return None

    def _add(self, injection: Injection) -> None:
        with self._lock:
            self._waiting.append(injection)
