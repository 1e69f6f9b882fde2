"""The case folders: what they hold, and which tests use them.

``data/`` is a copy, byte for byte, of cases that were made after public bug reports;
``data/README.md`` explains their words. Each ``expected.md`` states the result as JSON:
the tests read it and never repeat it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

FOLDER = Path(__file__).parent / "data"
ALL = tuple(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))

COVERED: dict[str, list[str]] = {}
"""Case -> the tests that use it; filled when the test modules are imported."""

_JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Test = TypeVar("Test", bound=Callable[..., object])


def expected(case: str) -> dict[str, Any]:
    """The JSON of the case's ``expected.md``, anew at each call."""
    text = (FOLDER / case / "expected.md").read_text(encoding="utf-8")
    (block,) = _JSON.findall(text)
    found: dict[str, Any] = json.loads(block)
    return found


def content(case: str, name: str) -> bytes:
    """An input file, byte for byte."""
    return (FOLDER / case / name).read_bytes()


def table(case: str, name: str) -> Any:
    """A JSON input file."""
    return json.loads(content(case, name))


def covers(*cases: str) -> Callable[[Test], Test]:
    """The test runs once for each of the cases, as its argument ``case``."""
    return _covers("case", [(case, case) for case in cases])


def covers_parts(
    cases: Iterable[str], parts: Callable[[str], Iterable[str]]
) -> Callable[[Test], Test]:
    """The test runs once for each part of each case: ``case`` and ``part``."""
    pairs = [(case, part) for case in cases for part in parts(case)]
    return _covers("case,part", [(case, (case, part)) for case, part in pairs])


def _covers(arguments: str, runs: list[tuple[str, Any]]) -> Callable[[Test], Test]:
    def decorate(test: Test) -> Test:
        for case in dict.fromkeys(case for case, _ in runs):
            COVERED.setdefault(case, []).append(test.__qualname__)
        mark = pytest.mark.parametrize(arguments, [run for _, run in runs])
        marked: Test = mark(test)
        return marked

    return decorate
