"""What the scripts share: options, a table in the terminal, JSON, a plot."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from .. import machine

RESULTS = Path(__file__).parent.parent / "results"


def parser(name: str, description: str, seeds: int) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.papers.{name}", description=description
    )
    made.add_argument("--data", nargs="+", metavar="SET", help="only these data sets")
    made.add_argument("--seeds", type=int, default=seeds, help=f"how many seeds ({seeds})")
    made.add_argument("--threads", type=int, default=2, help="threads (2)")
    made.add_argument("--out", type=Path, default=RESULTS / f"{name}.json", help="JSON file")
    return made


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """One table; the first column names its row."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 118)
    console.print(table)


def tell(text: str) -> None:
    Console().print(text, style="dim", highlight=False, markup=False, soft_wrap=True)


def save(path: Path, found: dict[str, Any]) -> None:
    """Write JSON at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps({"machine": machine.describe(), **found}, indent=1) + "\n")
    fresh.replace(path)
    tell(f"written: {path}")


def bars(
    path: Path, panels: dict[str, dict[str, list[float]]], ticks: list[str], label: str
) -> None:
    """A panel a key, groups of bars at the ticks, one bar a series."""
    for axis, series in drawn(path, panels):
        width = 0.8 / len(series)
        for position, (name, values) in enumerate(series.items()):
            places = [tick + position * width for tick in range(len(values))]
            axis.bar(places, values, width, label=name)
        axis.set_xticks([tick + 0.4 - width / 2 for tick in range(len(ticks))], ticks)
        axis.set_ylabel(label)


def lines(
    path: Path,
    panels: dict[str, dict[str, list[tuple[float, float]]]],
    labels: tuple[str, str],
    top: float,
) -> None:
    """A panel a key, a line a series, over log x; what is above the top is left out."""
    for axis, series in drawn(path, panels):
        for name, points in series.items():
            axis.plot(*zip(*points, strict=True), "o-", markersize=3, label=name)
        axis.set_xscale("log")
        axis.set_xlabel(labels[0])
        axis.set_ylabel(labels[1])
        axis.set_ylim(-0.1 * top, top)


def drawn(path: Path, panels: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Panels side by side, one after the other to be filled; the picture is written at the end."""
    try:
        import matplotlib
    except ImportError:
        tell("No plot: matplotlib is not installed (extra `bench`).")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for axis, (title, series) in zip(axes[0], panels.items(), strict=True):
        axis.set_title(title)
        axis.axhline(0, color="black", linewidth=0.6)
        yield axis, series
    axes[0][0].legend()
    figure.savefig(path.with_suffix(".png"), dpi=130)
    tell(f"written: {path.with_suffix('.png')}")
