"""The daemon as a process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.process.commands import start
from tests.process.waiting import until
from tests.process.web import answers, fetch, samples

FAST = {
    "SIDECAR_POLL_INTERVAL": "200ms",
    "SIDECAR_PUSHGATEWAY_INTERVAL": "300ms",
    "SIDECAR_PUSHGATEWAY_TIMEOUT": "1s",
}


class Daemon:
    """``capacity-sidecar run``; its output goes to files."""

    def __init__(
        self,
        directory: Path,
        port: int,
        settings: dict[str, str],
        *,
        prefix: Sequence[str] = (),
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start it, with its page on the port.

        Args:
            prefix: the command that runs it, and its arguments.
            stdout, stderr: descriptors to write to; None: the files.
        """
        self.url = f"http://127.0.0.1:{port}"
        self.out = directory / f"daemon-{port}.out"
        self.err = directory / f"daemon-{port}.err"
        listen = {"SIDECAR_LISTEN": f"127.0.0.1:{port}"}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = start(
                ["run"],
                {**FAST, **listen, **settings},
                prefix=prefix,
                stdout=out.fileno() if stdout is None else stdout,
                stderr=err.fileno() if stderr is None else stderr,
            )
        self.pid = self.process.pid

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log lines so far; JSON, every one of them."""
        return [json.loads(line) for line in self.err.read_text().splitlines()]

    def logged(self, text: str) -> list[str]:
        """The log's sentences that have the text in them."""
        return [line["event"] for line in self.log if text in line["event"]]

    def wait_for_page(self) -> Daemon:
        """Wait until it serves."""
        until(self._serves, "the daemon serves its page")
        return self

    def value(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples with these labels on the own page; 0: none."""
        return sum(
            sample.value
            for sample in samples(fetch(f"{self.url}/metrics"))
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def wait_for(self, name: str, above: float = 0.0, **labels: str) -> float:
        """Wait until a metric of the own page is above the value."""
        found = f"{name}{labels} above {above:g}"
        until(lambda: self.value(name, **labels) > above, found)
        return self.value(name, **labels)

    def end(self, signum: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal: the exit status, and the seconds until it came."""
        began = time.monotonic()
        os.kill(self.pid, signum)
        return self.process.wait(20), time.monotonic() - began

    def close(self) -> None:
        """Kill it if need be, and show what it said in case the test failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        print(self.err.read_text()[-4000:])

    def _serves(self) -> bool:
        assert self.process.poll() is None, self.err.read_text()
        return answers(f"{self.url}/healthz")
