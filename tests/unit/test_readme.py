from __future__ import annotations

from sidecar.commands.config import environment_file
from sidecar.environment import load, variables
from sidecar.reading import NAMES
from tests.readme import ENVIRONMENT_FILE, README, with_table


class TestReadme:
    def test_the_table_of_settings_is_the_settings(self) -> None:
        """Write it anew with `make docs`."""
        text = README.read_text("utf-8")

        assert text == with_table(text)
        for variable in variables():
            assert f"| `{variable.name}` |" in text

    def test_the_environment_file_is_the_settings(self) -> None:
        """Write it anew with `make docs`."""
        assert ENVIRONMENT_FILE.read_text("utf-8") == f"{environment_file()}\n"

    def test_every_line_of_the_environment_file_may_be_uncommented(self) -> None:
        lines = [
            line.removeprefix("#").partition("=")
            for line in environment_file().splitlines()
            if line.startswith("#SIDECAR_")
        ]
        # The one's folder is made by the service manager; the other needs an endpoint.
        apart = {"SIDECAR_STATE_FILE", "SIDECAR_CLOUD_MONITORING_INSECURE"}

        assert [name for name, _, _ in lines] == [each.name for each in variables()]
        for name, _, value in lines:
            assert name in apart or load({name: value})

    def test_every_published_name_is_told(self) -> None:
        text = README.read_text("utf-8")

        for name in NAMES:
            assert name in text or name.removesuffix("_upper") in text
