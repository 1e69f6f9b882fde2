"""What is written about each setting, from settings.py: ``make docs``.

The README's table, and the environment file of the systemd service.
"""

from __future__ import annotations

from pathlib import Path

from sidecar.commands.config import environment_file, table

_ROOT = Path(__file__).parent.parent
README = _ROOT / "README.md"
ENVIRONMENT_FILE = _ROOT / "packaging" / "systemd" / "capacity-sidecar.env"
START = "<!-- settings: written by make docs -->\n"
END = "<!-- end of settings -->"


def with_table(text: str) -> str:
    """The README with the table as it should be."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text("utf-8")), "utf-8")
    ENVIRONMENT_FILE.write_text(f"{environment_file()}\n", "utf-8")
