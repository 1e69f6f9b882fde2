"""A small load generator: clients on threads, each sends its next request after the
answer to its last one."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from http.client import HTTPConnection, HTTPException
from types import TracebackType

from tests.real.tiny_model import NAME

ANSWER_WITHIN = 60.0
_WORDS = ("worker", "server", "request", "token", "queue", "model", "batch", "load")


class Load:
    """So many clients for as long as the ``with`` block lasts.

    Args:
        tokens: shortest and longest answer.
    """

    def __init__(
        self, port: int, clients: int, tokens: tuple[int, int] = (8, 24)
    ) -> None:
        self.answered = 0
        self.failed = 0
        self._port = port
        self._tokens = tokens
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._client, args=[seed], daemon=True)
            for seed in range(clients)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_WITHIN + 5)

    def _client(self, seed: int) -> None:
        dice = random.Random(seed)
        with contextlib.closing(self._connection()) as connection:
            while not self._stop.is_set():
                good = self._ask(connection, dice)
                with self._lock:
                    self.answered += good
                    self.failed += not good
                if not good:
                    connection.close()
                    self._stop.wait(0.2)

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_WITHIN)

    def _ask(self, connection: HTTPConnection, dice: random.Random) -> bool:
        body = {
            "model": NAME,
            "prompt": " ".join(dice.choices(_WORDS, k=dice.randint(2, 6))),
            "max_tokens": dice.randint(*self._tokens),
            "ignore_eos": True,
            # vLLM 0.31 compiles its random sampler, and dies where no compiler is.
            "temperature": 0,
        }
        headers = {"Content-Type": "application/json"}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            return False
        return answer.status == 200
