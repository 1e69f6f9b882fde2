"""A replayed trace as a picture: the load, the estimate over time, the learned curve.

matplotlib is an extra: it is imported when something is drawn, and never its pyplot,
which keeps global state and may want a screen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.errors import SettingsError
from sidecar.estimators.base import Estimate
from sidecar.estimators.picture import Picture
from sidecar.plot import curve, series
from sidecar.plot.series import Row
from sidecar.plot.style import SMALL, figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

INCHES, DPI = (12.0, 8.0), 120

_WIDTHS = (1.3, 1.0)
"""What is over time, and the curve beside it."""

_HEIGHTS = (1.0, 0.8, 1.7, 0.1)
"""Load, requests, estimate, state."""


@dataclass(frozen=True)
class Replay:
    """What a trace led to.

    Attributes:
        trace: where it was read.
        rows: at least one, in order of time.
        estimate: the last; None: there was none.
        picture: the curve; None: none was learned.
    """

    trace: Path
    rows: tuple[Row, ...]
    estimate: Estimate | None
    picture: Picture | None


def file_format(path: Path) -> str:
    """The format that the file's name asks for.

    Raises:
        SettingsError: there is no such format, or no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        install = "pip install 'capacity-sidecar[plot]'"
        raise SettingsError(f"--plot needs matplotlib: {install}") from None
    # All but what would need LaTeX as well.
    known = Figure().canvas.get_supported_filetypes().keys() - {"pgf"}
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in known:
        names = ", ".join(f".{name}" for name in sorted(known))
        raise SettingsError(f"--plot {path}: the name must end in one of {names}")
    return suffix


def draw(replay: Replay, file_format: str) -> bytes:
    """The contents of the picture's file, in a format of ``file_format``."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(wspace=0.04)
    figure = Figure(figsize=INCHES, dpi=DPI, layout=layout)
    # A $ in a file's name begins no formula.
    figure.suptitle(_title(replay), fontsize=13, parse_math=False)
    figure.supxlabel(_caption(replay), x=0.01, ha="left", fontsize=SMALL)
    if replay.picture:
        columns = figure.add_gridspec(1, 2, width_ratios=_WIDTHS)
        times, rates = _stack(figure, columns[1], (1.0, 1.0))
        figure.align_ylabels([times, rates])
        curve.draw(times, rates, replay.picture)
    else:
        columns = figure.add_gridspec(1, 1)
    panels = _stack(figure, columns[0], _HEIGHTS)
    figure.align_ylabels(panels[:-1])
    series.draw(panels, replay.rows)
    file = BytesIO()
    figure.savefig(file, format=file_format, dpi=DPI)
    return file.getvalue()


def _stack(figure: Figure, place: SubplotSpec, heights: Sequence[float]) -> list[Axes]:
    """Panels from above, all over what the lowest names."""
    rows = place.subgridspec(len(heights), 1, height_ratios=heights)
    panels = [figure.add_subplot(rows[i]) for i in range(len(heights))]
    for panel in panels[:-1]:
        panel.sharex(panels[-1])
        panel.tick_params(labelbottom=False)
    return panels


def _title(replay: Replay) -> str:
    """The trace; the estimate, its band, and what limits it."""
    name = os.fsencode(replay.trace.stem).decode("utf-8", "replace")
    estimate = replay.estimate
    if estimate is None:
        return f"{name}\nno estimate of the capacity"
    told = f"capacity {figures(estimate.capacity)} requests/s"
    if estimate.lower is not None and estimate.upper is not None:
        ends = f"{figures(estimate.lower)} to {figures(estimate.upper)}"
        told += f" (80 %: {ends})"
    if estimate.limited_by:
        told += f", limited by: {estimate.limited_by}"
    return f"{name}\n{told}"


def _caption(replay: Replay) -> str:
    """How the estimate came about."""
    estimate = replay.estimate
    if estimate is None:
        return ""
    return f"Estimate: {estimate.method}; from {estimate.evidence:,.0f} completions."
