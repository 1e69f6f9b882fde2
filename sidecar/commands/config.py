"""``config``: every setting, its value, and where it came from."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from pydantic import SecretStr

from sidecar import environment
from sidecar.environment import Variable, masked, variables
from sidecar.settings import Settings
from sidecar.signals import StopRequest


def configure(parser: argparse.ArgumentParser) -> None:
    """The form of the output."""
    parser.add_argument(
        "--output",
        choices=["text", "json", "markdown", "env"],
        default="text",
        help="text or JSON; the reference of all settings as a Markdown table, or as "
        "an environment file with every setting commented out",
    )


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Print the settings."""
    stop.uninstall()
    if options.output == "markdown":
        print(table())
        return 0
    if options.output == "env":
        print(environment_file())
        return 0
    loaded = environment.load()
    rows = [
        (v.name, _shown(_value(loaded.settings, v)), loaded.origins.get(v.name))
        for v in variables()
    ]
    if options.output == "json":
        found = {name: {"value": v, "origin": o or "default"} for name, v, o in rows}
        print(json.dumps(found, indent=1))
        return 0
    width = max(len(name) for name, _, _ in rows)
    for name, value, origin in rows:
        text = "" if value is None else _text(value)
        print(f"{name:{width}}  {text:32}  {_origin(name, origin)}")
    return 0


def table() -> str:
    """The reference of all settings, as the README shows it."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for variable in variables():
        default = _default(variable)
        shown = f"`{default}`" if default else ""
        meaning = variable.field.description or ""
        if variable.field.examples:
            meaning += f" Example: `{variable.field.examples[0]}`."
        if variable.is_secret:
            meaning += f" Or a file that holds it: `{variable.name}_FILE`."
        lines.append(f"| `{variable.name}` | {shown} | {meaning} |")
    return "\n".join(lines)


def environment_file() -> str:
    """The same as an environment file, each setting commented out."""
    lines = [
        "# Settings of capacity-sidecar, NAME=value. After `systemctl restart",
        "# capacity-sidecar` its `systemctl status` says what is wrong with one.",
    ]
    for variable in variables():
        meaning = (variable.field.description or "").replace("`", "")
        if variable.is_secret:
            meaning += f" Better: the file /etc/capacity-sidecar/{variable.name}."
        examples = variable.field.examples
        shown = _default(variable) or (examples[0] if examples else "")
        lines += ["", *_comment(meaning)]
        lines.append(f"#{variable.name}={shown}")
    return "\n".join(lines)


def _default(variable: Variable) -> str:
    """The default as an operator would write it; "" for none."""
    default = variable.field.default
    return "" if default in (None, (), {}) else _text(_shown(default))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=88,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
    )


def _value(settings: Settings, variable: Variable) -> Any:
    value: Any = settings
    for part in variable.path:
        value = getattr(value, part)
    return value


def _shown(value: Any) -> Any:
    """The value as it may be shown."""
    if isinstance(value, SecretStr):
        return "***"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, tuple):
        return [masked(str(part)) for part in value]
    if isinstance(value, dict):
        return value
    return masked(str(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in value.items())
    return str(value)


def _origin(name: str, origin: str | None) -> str:
    if origin is None:
        return "default"
    return "environment" if origin == name else origin
