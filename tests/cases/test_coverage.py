from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from tests.cases.cases import ALL, COVERED, FOLDER, expected

HERE = Path(__file__).parent


def test_every_case_is_used() -> None:
    for module in sorted(HERE.glob("test_*.py")):
        import_module(f"{__package__}.{module.stem}")

    assert {*COVERED} == {*ALL}
    assert all(COVERED.values())


def test_every_case_has_its_input_and_its_result() -> None:
    for case in ALL:
        assert expected(case)["kind"]
        text = (FOLDER / case / "expected.md").read_text(encoding="utf-8")
        inputs = {path.name for path in (FOLDER / case).iterdir()} - {"expected.md"}
        assert inputs
        assert all(f"`{name}`" in text for name in inputs)
        for name in inputs:
            if name.endswith(".json"):
                json.loads((FOLDER / case / name).read_bytes())
