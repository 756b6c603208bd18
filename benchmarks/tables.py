"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

from .summary import Ratio, Summary, over
from .systems import OURS

NOTHING = "-"
COLUMNS = ("seconds", "range", "x ours", "cost", "/ ours", "stated", "MB", "iter.", "cores")


def systems_table(console: Console, title: str, summaries: Iterable[Summary]) -> None:
    """All systems on one task, and how they compare with ours."""
    summaries = list(summaries)
    ours = next((one for one in summaries if one.system == OURS), None)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("system", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    notes = []
    for one in summaries:
        if one.seconds is None:
            notes.append(f"{one.system}: {one.status}, {one.message}")
            continue
        more = "> " if one.limited else ""
        table.add_row(
            one.system,
            time_of(one),
            f"{seconds(one.fastest)} .. {seconds(one.slowest)}" if one.runs > 1 else NOTHING,
            more + times(over(one.seconds, ours.seconds if ours else None)),
            number(one.cost, ".6g"),
            number(over(one.cost, ours.cost if ours else None), ".4f"),
            number(one.stated_cost, ".6g"),
            more + number(one.memory, ".0f"),
            number(one.iterations, ".0f"),
            number(one.cores, ".1f"),
            style="bold" if one.system == OURS else None,
        )
    if table.rows:
        console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)


def growth_table(
    console: Console, title: str, steps: Iterable[tuple[float, list[Summary]]], x_label: str
) -> None:
    """Seconds of each system at growing sizes."""
    steps = list(steps)
    names = list(dict.fromkeys(one.system for _, found in steps for one in found))
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in (x_label, *names):
        table.add_column(column, justify="right", no_wrap=True)
    for size, found in steps:
        by_name = {one.system: one for one in found}
        table.add_row(f"{size:,.0f}", *(time_of(by_name.get(name)) for name in names))
    console.print(table)


def ratios_table(
    console: Console, title: str, ratios: Iterable[Ratio], wanted: str = "", aim: str = ""
) -> None:
    """One figure a data set, with what is wanted of it."""
    ratios = list(ratios)
    if not ratios:
        return
    goals = [f"{name} {goal}" for name, goal in (("wanted", wanted), ("aim", aim)) if goal]
    title = f"{title} ({', '.join(goals)})" if goals else title
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("data", no_wrap=True)
    for column in ("K", "ours", "other", "ratio", "cost", "cost / lowest"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("other is")
    for one in ratios:
        more = "> " if one.bound else ""
        table.add_row(
            one.data, f"{one.k:,}" if one.k else NOTHING, measured(one.ours, one.unit),
            more + measured(one.theirs, one.unit), (">= " if one.bound else "") + times(one.value),
            number(one.cost, ".4f"), number(one.cost_lowest, ".4f"),
            "; ".join(text for text in (one.peer, one.note) if text),
        )  # fmt: skip
    console.print(table)


def number(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


def seconds(value: float | None) -> str:
    return number(value, ".3f" if value is not None and value < 10 else ".1f")


def times(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def time_of(one: Summary | None) -> str:
    if one is None:
        return NOTHING
    return ("> " if one.limited else "") + seconds(one.seconds)


def measured(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    return f"{seconds(value)} s" if unit == "s" else f"{value:.0f} {unit}"
