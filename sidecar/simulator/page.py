"""The metrics page of a simulated worker, in the form that vLLM 0.32 gives it.

Same families, labels, HELP and TYPE lines and floats as a real page; histograms have
only their last bucket.
"""

from __future__ import annotations

from collections.abc import Collection

from sidecar.simulator.engine import Engine
from sidecar.simulator.families import Labels, families


def render(
    engine: Engine, names: Collection[str] | None = None, *, epoch: float = 0.0
) -> str:
    """Return the page of an engine as it is now.

    Args:
        engine: the worker.
        names: samples to give, by exact name, as `?name[]=` asks; None gives all.
        epoch: Unix time at 0 of the engine's time.
    """
    lines = []
    for family in families(engine, epoch):
        samples = [
            f"{family.name}{suffix}{_labels(labels)} {format_float(value)}\n"
            for suffix, labels, value in family.samples
            if names is None or family.name + suffix in names
        ]
        if samples:
            lines.append(f"# HELP {family.name} {family.help}\n")
            lines.append(f"# TYPE {family.name} {family.kind}\n")
            lines.extend(samples)
    return "".join(lines)


def format_float(value: float) -> str:
    """Write a number as prometheus_client does: `138.0`, `2.102771712e+09`."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02d}"
    return text


def _labels(labels: Labels) -> str:
    """Write labels in the order of their names, as they are on the wire."""
    if not labels:
        return ""
    pairs = (f'{name}="{_escape(labels[name])}"' for name in sorted(labels))
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
