from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.unit.cloud_monitoring.bench import Bench

Made = Callable[..., Bench]


@pytest.fixture
def made() -> Iterator[Made]:
    """Makes benches, and stops their services."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Bench:
            bench = Bench(**settings)
            stack.enter_context(bench.service)
            stack.callback(lambda: bench.sink.close())
            return bench

        yield make


@pytest.fixture
def bench(made: Made) -> Bench:
    return made()
