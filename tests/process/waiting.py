"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.05


def until(condition: Callable[[], T], what: str, within: float = 15.0) -> T:
    """Return the first true result of `condition`; fail after `within` seconds.

    Args:
        what: what is waited for, the message of the failure.
    """
    deadline = time.monotonic() + within
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(PAUSE)
    return result
