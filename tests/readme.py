"""The README's table of settings, from settings.py: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from sidecar.commands.config import table

README = Path(__file__).parent.parent / "README.md"
START = "<!-- settings: written by make docs -->\n"
END = "<!-- end of settings -->"


def with_table(text: str) -> str:
    """The README with the table as it should be."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text("utf-8")), "utf-8")
