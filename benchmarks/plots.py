"""Plots of the results as PNG, one panel a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .summary import Summary

WIDTH, HEIGHT = 7.5, 3.6


@dataclass(frozen=True)
class Panel:
    """Bars by group and series, or lines where the groups are numbers."""

    title: str
    values: dict[str, dict[str | float, float]]  # series -> group or x -> value
    bounds: frozenset[tuple[str, str | float]] = frozenset()  # (series, group) that are "at least"
    lines: bool = False
    x_label: str = ""
    y_label: str = "seconds"


def panel_of(title: str, summaries: list[Summary]) -> Panel:
    """Times of the systems by data set."""
    values: dict[str, dict[str | float, float]] = {}
    bounds = set()
    for one in summaries:
        if one.seconds is not None:
            values.setdefault(one.system, {})[one.data] = one.seconds
            if one.limited:
                bounds.add((one.system, one.data))
    return Panel(title, values, frozenset(bounds))


def draw(panels: list[Panel], path: Path) -> bool:
    """Write the panels below one another; False where matplotlib is not there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    series = list(dict.fromkeys(name for panel in panels for name in panel.values))
    colors = {name: f"C{i % 10}" for i, name in enumerate(series)}
    figure, axes = pyplot.subplots(
        len(panels), figsize=(WIDTH, HEIGHT * len(panels)), squeeze=False, layout="constrained"
    )
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        axis.set_title(panel.title, loc="left", fontsize=10)
        axis.set_ylabel(panel.y_label)
        axis.set_yscale("log")
        (_lines if panel.lines else _bars)(axis, panel, colors)
        axis.grid(axis="y", alpha=0.3)
        axis.legend(fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True


def _bars(axis: Any, panel: Panel, colors: dict[str, str]) -> None:
    groups = list(dict.fromkeys(group for points in panel.values.values() for group in points))
    width = 0.8 / len(panel.values)
    for i, (name, points) in enumerate(panel.values.items()):
        offset = (i - (len(panel.values) - 1) / 2) * width
        places = [groups.index(group) + offset for group in points]
        hatches = ["///" if (name, group) in panel.bounds else "" for group in points]
        bars = axis.bar(
            places, list(points.values()), width, label=name, color=colors[name], hatch=hatches
        )
        texts = [
            (">" if (name, group) in panel.bounds else "") + f"{value:.2g}"
            for group, value in points.items()
        ]
        axis.bar_label(bars, texts, fontsize=6)
    axis.set_ylim(bottom=min(min(points.values()) for points in panel.values.values()) / 3)
    axis.set_xticks(range(len(groups)), [str(group) for group in groups], fontsize=8)


def _lines(axis: Any, panel: Panel, colors: dict[str, str]) -> None:
    for name, points in panel.values.items():
        axis.plot(list(points), list(points.values()), "o-", label=name, color=colors[name])
    axis.set_xscale("log")
    axis.set_xlabel(panel.x_label)
