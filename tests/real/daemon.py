"""The real sidecar as a process, and somebody who watches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.real.child import Child, fetch, free_port, until

CHECKOUT = Path(__file__).parents[2]
WATCH_EVERY = 0.2
NUMBERS = (
    "published",
    "capacity",
    "capacity_lower",
    "capacity_upper",
    "utilization",
    "throughput",
    "demand",
    "running",
    "waiting",
    "concurrency_limit",
)


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without any setting, and these settings."""
    ours = ("SIDECAR_", "DYN_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return {**kept, "PYTHONPATH": str(CHECKOUT), **settings}


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """One of the sidecar's commands that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Daemon:
    """``run``, polling every second and pushing every second, watched all the time.

    Attributes:
        history: what ``/status`` said of the workers, each time.
    """

    def __init__(self, log: Path, gateway: str, **settings: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.history: list[list[dict[str, Any]]] = []
        self.child = Child(
            "the sidecar",
            [sys.executable, "-m", "sidecar", "run"],
            environment(
                SIDECAR_LISTEN=f"127.0.0.1:{port}",
                SIDECAR_POLL_INTERVAL="1s",
                SIDECAR_PUSHGATEWAY_URL=gateway,
                SIDECAR_PUSHGATEWAY_INTERVAL="1s",
                SIDECAR_RETIRE_AFTER="3m",
                **settings,
            ),
            log,
        )
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def at(self, port: int) -> dict[str, Any]:
        """What it said last of the worker at a port; empty: it knows none."""
        workers = self.history[-1] if self.history else []
        return next((w for w in workers if _port(w) == port), {})

    def wait(
        self,
        port: int,
        what: str,
        ready: Callable[[Mapping[str, Any]], bool],
        timeout: float = 20.0,
    ) -> dict[str, Any]:
        """Wait until it says ``what`` of the worker at a port."""

        def said() -> dict[str, Any]:
            worker = self.at(port)
            return worker if worker and ready(worker) else {}

        return until(said, timeout, f"the sidecar to say: {what}; {self.child.tail()}")

    def wait_state(self, port: int, state: str, timeout: float = 20.0) -> None:
        """Wait until the worker at a port is in that state."""
        self.wait(port, state, lambda worker: worker["state"] == state, timeout)

    def states(self, *ports: int) -> list[str]:
        """The states that workers at these ports went through, in order."""
        seen = [w["state"] for ws in self.history for w in ws if _port(w) in ports]
        return [state for state, _ in groupby(seen)]

    def numbers(self, *ports: int) -> dict[str, list[float]]:
        """Every number that it ever said of workers at these ports, by name."""
        seen = [w for ws in self.history for w in ws if _port(w) in ports]
        return {
            name: [w[name] for w in seen if w[name] is not None] for name in NUMBERS
        }

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit status, and how many seconds it took."""
        self._end_watch()
        return self.child.terminate()

    def close(self) -> None:
        """Whatever happened, nothing is left running."""
        self._end_watch()
        self.child.stop()

    def _end_watch(self) -> None:
        self._stop.set()
        self._watcher.join(10)

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_EVERY):
            if body := fetch(f"{self.url}/status", timeout=2):
                self.history.append(json.loads(body)["workers"])


def _port(worker: Mapping[str, Any]) -> int:
    return int(str(worker["target"]).rpartition(":")[2])
