"""The learned curve: R(n) and X(n), the levels, and what is read off at n*."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sidecar.estimators.picture import Picture, Rate
from sidecar.plot.style import BLUE, DARK, GREEN, SMALL, VERMILION, grid, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Triple = tuple[float, float, float]
"""The middle, the lower and the upper end of the 80 % interval."""

_LARGEST, _SMALLEST = 130.0, 5.0
"""Area of the marker of the level with the most completions; of the least to be seen,
square points."""

_FAR = 6.0
"""From the highest level to n*; beyond, a log axis keeps the levels apart."""


def draw(times: Axes, rates: Axes, picture: Picture) -> None:
    """R(n) and X(n), one above the other, over the same n."""
    for axes, value in ((times, _time), (rates, _rate)):
        _draw(axes, picture, value)
    _scale(rates, picture)
    times.set_ylabel("time in service R(n), s/request")
    rates.set_ylabel("throughput X(n), requests/s")
    rates.set_xlabel("concurrency n, requests")
    limit, origin = picture.capacity.concurrency, picture.limited_by
    # Above the panel no curve is in its way.
    rates.set_title(
        f"n* = {limit:.0f}: {origin}", loc="right", fontsize=SMALL, color=VERMILION
    )
    legend(times)


def _rate(rate: Rate) -> Triple:
    return rate.middle, rate.lower, rate.upper


def _time(rate: Rate) -> Triple:
    return rate.time


def _draw(axes: Axes, picture: Picture, value: Callable[[Rate], Triple]) -> None:
    found = picture.capacity
    n = [rate.concurrency for rate in picture.line]
    middle, lower, upper = zip(*map(value, picture.line), strict=True)
    axes.fill_between(n, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(n, middle, color=BLUE, label="fit, 80 % band")
    points = [level.rate for level in picture.levels]
    if points:
        bars = _bars(map(value, points))
        x, y = [p.concurrency for p in points], [value(p)[0] for p in points]
        most = max(level.completions for level in picture.levels) or 1.0
        areas = [_LARGEST * level.completions / most for level in picture.levels]
        axes.errorbar(x, y, yerr=bars, fmt="none", ecolor=DARK, elinewidth=1)
        axes.scatter(
            x,
            y,
            s=[max(_SMALLEST, area) for area in areas],
            color="white",
            edgecolor=DARK,
            zorder=3,
            label="load level (area: completions)",
        )
    axes.axvline(found.concurrency, color=VERMILION, linestyle="--", linewidth=1)
    axes.errorbar(
        [found.concurrency],
        [value(found)[0]],
        yerr=_bars([value(found)]),
        fmt="D",
        markersize=5,
        color=GREEN,
        capsize=4,
        zorder=4,
        label="at n*",
    )
    # A level that hardly was may be anywhere: its bar does not set the scale.
    highest = max(*upper, value(found)[2], *(value(p)[0] for p in points))
    axes.set_ylim(0, 1.05 * highest)
    grid(axes)


def _bars(values: Iterable[Triple]) -> list[list[float]]:
    """Lengths downwards and upwards, for ``errorbar``."""
    lengths = [(m - low, high - m) for m, low, high in values]
    return [list(each) for each in zip(*lengths, strict=True)]


def _scale(axes: Axes, picture: Picture) -> None:
    """The axis of n: linear, so that a line is one, unless n* is far off."""
    limit = picture.capacity.concurrency
    highest = max((level.rate.concurrency for level in picture.levels), default=1.0)
    right = max(limit, highest)
    if limit > _FAR * highest:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlim(0.9, right**1.05)
    else:
        axes.set_xlim(0, 1.05 * right)
