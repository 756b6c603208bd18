"""Small pictures as SVG: where things are. Colors and fonts come from the page around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sparsecluster.report.templating import render

WIDTH, HEIGHT = 520, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 12, 38
MOST_POINTS = 1000
MOST_BARS = 150
WIDEST_BAR = 40.0
UNEVEN = 20  # times the median that the largest value must be for a logarithmic scale
NAME_HEIGHT = 14  # of the name of a line, in units of the picture
LEAST_ON_LOG = 0.7  # where the axis of counts begins, so that a count of one is seen


class Axis:
    """From values to places along one side of a picture."""

    def __init__(self, low: float, high: float, begin: float, end: float, scale: str) -> None:
        if low == high:
            margin = abs(low) / 2 or 0.5
            low, high = low - margin * (scale == "linear"), high + margin
        self._low, self._high, self._begin, self._end = low, high, begin, end
        self._scale = scale

    def place(self, value: float) -> float:
        """Where a value is; what lies outside is put at the end of the axis."""
        low, high = self._bent(self._low), self._bent(self._high)
        share = (self._bent(max(value, self._low)) - low) / (high - low)
        return self._begin + min(max(share, 0.0), 1.0) * (self._end - self._begin)

    def _bent(self, value: float) -> float:
        if self._scale == "log":
            return math.log(value)
        return math.log1p(value) if self._scale == "log1p" else value

    def ticks(self) -> list[float]:
        """A few round values along the axis."""
        if self._scale == "linear":
            return _round_steps(self._low, self._high)
        least = math.floor(math.log10(self._low)) if self._low > 0 else 0
        powers = range(least, math.ceil(math.log10(max(self._high, 1.0))) + 1)
        thinned = powers[:: max(1, len(powers) // 5)]
        ticks = [10.0**power for power in thinned]
        inside = [tick for tick in ticks if self._low <= tick <= self._high]
        if len(inside) < 2:
            return _round_steps(self._low, self._high)
        return [0.0, *inside] if self._low == 0 else inside


def _round_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within a range: three to seven of them."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * times for times in (1, 2, 5, 10) if power * times >= rough), rough)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def line_plot(
    iterations: Sequence[int],
    y: Sequence[float],
    *,
    title: str,
    scale: str = "linear",
    below: str = "iteration",
    marks: Sequence[tuple[str, float]] = (),
) -> str:
    """Values against iterations, or another count: a line, with the last value marked, and
    horizontal lines at named values."""
    points = [(a, b) for a, b in zip(iterations, y, strict=True) if math.isfinite(b) and b >= 0]
    if not points:
        return ""
    step = -(-len(points) // MOST_POINTS)
    points = [*points[:-1:step], points[-1]]
    values = [*(b for _, b in points), *(value for _, value in marks)]
    low = {"linear": min(values), "log": max(min(values), 1e-300), "log1p": 0.0}[scale]
    high = max(values)
    if scale == "linear":
        margin = 0.05 * (high - low)
        low, high = max(low - margin, 0.0), high + margin
    numbers = [a for a, _ in points]
    across = Axis(min(numbers), max(numbers), LEFT + 6, WIDTH - RIGHT - 6, "linear")
    up = Axis(low, high, HEIGHT - BOTTOM, TOP, scale)
    whole = [tick for tick in across.ticks() if tick.is_integer()] or [points[0][0]]
    told = [f"{below} {a}: {b:,.8g}" for a, b in points]
    places = [(across.place(a), up.place(b)) for a, b in points]
    return _picture(
        title,
        _ticks(up, up.ticks()),
        _ticks(across, whole),
        below,
        points=[(*place, words) for place, words in zip(places, told, strict=True)],
        marks=_marks(up, marks),
        marks_end=LEFT + 4,  # where a curve that rises leaves room
    )


def size_plot(
    clusters: Sequence[int], sizes: np.ndarray, *, title: str, linked: Sequence[int]
) -> str:
    """Sizes of clusters, largest first: a bar each, or one outline where they are very many."""
    median, largest = float(np.median(sizes)), float(sizes.max())
    if largest <= 0:
        return ""
    log = largest > UNEVEN * max(median, 1.0)
    width = min((WIDTH - LEFT - RIGHT) / len(sizes), WIDEST_BAR)
    up = Axis(
        LEAST_ON_LOG if log else 0.0, largest, HEIGHT - BOTTOM, TOP, "log" if log else "linear"
    )
    heights = [up.place(float(size)) for size in sizes]
    last = LEFT + (max(len(sizes), 2) - 0.5) * width
    across = Axis(1, max(len(sizes), 2), LEFT + width / 2, last, "linear")
    ticks = [tick for tick in across.ticks() if tick.is_integer() and tick <= len(sizes)]
    places = [LEFT + i * width for i in range(len(sizes))]
    bars = list(zip(clusters, [f"{int(size):,}" for size in sizes], places, heights, strict=True))
    return _picture(
        title,
        _ticks(up, up.ticks()),
        _ticks(across, ticks or [1]),
        "clusters, largest first" + (" (rows on a logarithmic scale)" if log else ""),
        marks=_marks(up, [("median", median)] if len(sizes) > 2 else []),
        bars=[] if len(bars) > MOST_BARS else bars,
        outline=heights if len(bars) > MOST_BARS else [],
        width=width,
        linked=linked,
    )


def _ticks(axis: Axis, values: Sequence[float]) -> list[dict[str, Any]]:
    return [{"place": axis.place(value), "value": f"{value:,.6g}"} for value in values]


def _marks(axis: Axis, marks: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Lines at values of an axis, with their names; the name of a lower one goes below its line."""
    placed: list[dict[str, Any]] = [
        {"place": axis.place(value), "name": f"{name} {value:,.4g}", "below": False}
        for name, value in marks
    ]
    placed.sort(key=lambda mark: mark["place"])
    for upper, lower in pairwise(placed):
        lower["below"] = lower["place"] - upper["place"] < NAME_HEIGHT
    return placed


def _picture(title: str, up: Any, across: Any, below: str, **parts: Any) -> str:
    frame = {"width": WIDTH, "height": HEIGHT, "base": HEIGHT - BOTTOM}
    frame |= {"left": LEFT, "right": WIDTH - RIGHT}
    drawn = {"points": [], "bars": [], "outline": [], "marks": [], "marks_end": None} | parts
    return render("plot.svg", title=title, frame=frame, up=up, across=across, below=below, **drawn)
