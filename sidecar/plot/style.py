"""What the panels share: colours, the place of a legend, how numbers are written.

The colour-blind tell these colours apart, after Okabe and Ito, Color Universal Design
(2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#0072B2"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
VERMILION = "#D55E00"
YELLOW = "#F0E442"
DARK = "#555555"
LIGHT = "#DDDDDD"

SMALL = 9.0
"""Size of what is beside the point, points."""


def grid(axes: Axes) -> None:
    """A faint grid behind everything."""
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def legend(axes: Axes) -> None:
    """A legend above the panel, where no line can be."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.1,
        ncols=3,
        frameon=False,
        fontsize=SMALL,
        handlelength=1.4,
        columnspacing=1.2,
    )


def figures(value: float) -> str:
    """Three significant ones, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
