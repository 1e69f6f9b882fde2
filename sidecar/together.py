"""Several calls at once, where one that hangs must not delay the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def together(calls: Sequence[Callable[[], None]]) -> None:
    """Make all calls and wait for them. A call must not raise, and must end by itself.

    The threads are daemons, so that a name server that never answers cannot keep the
    process from ending.
    """
    if len(calls) == 1:
        calls[0]()
        return
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
