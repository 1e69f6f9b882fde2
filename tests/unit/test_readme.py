from __future__ import annotations

from sidecar.environment import variables
from sidecar.reading import NAMES
from tests.readme import README, with_table


class TestReadme:
    def test_the_table_of_settings_is_the_settings(self) -> None:
        """Write it anew with `make docs`."""
        text = README.read_text("utf-8")

        assert text == with_table(text)
        for variable in variables():
            assert f"| `{variable.name}` |" in text

    def test_every_published_name_is_told(self) -> None:
        text = README.read_text("utf-8")

        for name in NAMES:
            assert name in text or name.removesuffix("_upper") in text
