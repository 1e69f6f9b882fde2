"""The network of another process, for this thread and what it starts."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Within, this thread's new sockets and processes are in that one's network."""
    with (
        open("/proc/thread-self/ns/net") as ours,
        open(f"/proc/{pid}/ns/net") as theirs,
    ):
        _enter(theirs.fileno())
        try:
            yield
        finally:
            _enter(ours.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
