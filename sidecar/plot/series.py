"""What the trace shows over time, and the estimate: one panel above the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING

from sidecar.plot.style import (
    BLUE,
    DARK,
    GREEN,
    LIGHT,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILION,
    YELLOW,
    figures,
    grid,
    legend,
)
from sidecar.reading import Values
from sidecar.states import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[float, Values]
"""Seconds, and the values then."""

_STATES = {
    State.UNREACHABLE: "black",
    State.BASELINE: YELLOW,
    State.IDLE: LIGHT,
    State.SERVING: SKY,
    State.SATURATED: VERMILION,
    State.STALLED: PURPLE,
    State.SLEEPING: DARK,
}

_UNITS = ((3 * 3600.0, 3600.0, "h"), (900.0, 60.0, "min"), (0.0, 1.0, "s"))
"""The least span, the seconds of a unit, its sign."""

_USUAL = 0.9
"""Of the band's upper ends; those of the first polls may lie far above all else."""

_WORTH = 1.5
"""Times as high as the rest: so much is cut off, and less is shown."""

_MANY = 4.0
"""Times more wait than run: beyond, a linear axis would flatten those that run."""


@dataclass(frozen=True)
class _Series:
    """The rows, by column.

    Attributes:
        x: times, in the unit of the axis.
    """

    x: Sequence[float]
    values: Sequence[Values]

    def numbers(self, name: str) -> list[float]:
        """One number over time; not a number where there is none: it leaves a gap."""
        found = (getattr(each, name) for each in self.values)
        return [nan if value is None else value for value in found]

    def most(self, name: str, share: float = 1.0) -> float:
        """What such a share of the numbers is not above; 0 where there are none."""
        known = sorted(filter(isfinite, self.numbers(name)))
        return known[ceil(share * len(known)) - 1] if known else 0.0


def draw(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Load, requests, estimate and state, from above, over the same time."""
    span = rows[-1][0] - rows[0][0]
    _, unit, sign = next(each for each in _UNITS if span >= each[0])
    series = _Series([time / unit for time, _ in rows], [values for _, values in rows])
    load, requests, estimate, states = panels
    load.set_title("load", loc="left", fontsize=10)
    load.set_ylabel("requests/s")
    # Where both are the same, what came out is seen.
    _draw_lines(load, series, demand=ORANGE, throughput=BLUE)
    requests.set_title("in the engine", loc="left", fontsize=10)
    requests.set_ylabel("requests")
    if series.most("waiting") > _MANY * series.most("running"):
        requests.set_yscale("symlog", linthresh=1.0, linscale=0.4)
        requests.yaxis.set_major_formatter("{x:g}")
    _draw_lines(requests, series, running=BLUE, waiting=VERMILION)
    estimate.set_title("estimate", loc="left", fontsize=10)
    estimate.set_ylabel("requests/s")
    _draw_band(estimate, series)
    _draw_lines(estimate, series, throughput=BLUE, capacity=GREEN)
    states.set_xlabel(f"time, {sign}", loc="right")
    _draw_states(states, series)


def _draw_lines(axes: Axes, series: _Series, **colours: str) -> None:
    """These numbers over time; the legend is above, where no line can be."""
    if not any(isfinite(y) for name in colours for y in series.numbers(name)):
        text = "none: no two polls in a row to compare"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=DARK)
        axes.set_yticks([])
        return
    for name, colour in colours.items():
        numbers = series.numbers(name)
        axes.plot(series.x, numbers, color=colour, linewidth=1.2, label=name)
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(axes)


def _draw_band(axes: Axes, series: _Series) -> None:
    """The band of the capacity, and a scale on which the rest can be read."""
    lower, upper = (series.numbers(f"capacity_{end}") for end in ("lower", "upper"))
    if not any(map(isfinite, upper)):
        return
    band = axes.fill_between(series.x, lower, upper, label="80 % band")
    band.set(color=GREEN, alpha=0.25, linewidth=0)
    usual, highest = (series.most("capacity_upper", share) for share in (_USUAL, 1.0))
    top = max(usual, series.most("throughput"))
    if highest > _WORTH * top:
        axes.set_ylim(top=1.15 * top)
        axes.text(
            0.995,
            0.98,
            f"cut off: the band reaches {figures(highest)} requests/s",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=SMALL,
            color=GREEN,
        )


def _draw_states(axes: Axes, series: _Series) -> None:
    """A strip; a state holds until the next row, the last as long as the one before."""
    x = series.x
    step = x[-1] - x[-2] if len(x) > 1 else 1.0
    ends = [*x[1:], x[-1] + step]
    spans: dict[State, list[tuple[float, float]]] = {}
    for state, group in groupby(range(len(x)), lambda i: series.values[i].state):
        held = [*group]
        begin, end = x[held[0]], ends[held[-1]]
        spans.setdefault(state, []).append((begin, end - begin))
    for state, colour in _STATES.items():
        if state in spans:
            axes.broken_barh(
                spans[state], (0, 1), color=colour, linewidth=0, label=str(state)
            )
    axes.set_xlim(x[0], ends[-1])
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel("state", rotation="horizontal", ha="right", va="center")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.01, -1.2),
        ncols=len(_STATES),
        frameon=False,
        fontsize=SMALL,
        handlelength=1.0,
        columnspacing=1.2,
    )
