"""`sparsecluster plan`: what an iteration costs on many machines, and how many of them pay."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsecluster.cli.options import Clusters, Running
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from sparsecluster import Plan


def plan(
    store: Path | None = None,
    /,
    *,
    clusters: Clusters,
    machines: int = 1,
    network: str = "10Gbit",
    memory: str = "64GB",
    cores: int | None = None,
    rows: float | None = None,
    entries: float | None = None,
    columns: float | None = None,
    center_entries: float | None = None,
    moved: float = 0.01,
    calibrate: Annotated[bool, Parameter(negative=())] = False,
    running: Running = Running(),
) -> None:
    """Estimate the bytes and seconds of an iteration of k-means on many machines.

    Parameters
    ----------
    store
        The rows, or a sample of them. Without it --rows, --entries and --columns describe them.
    clusters
        The number of clusters.
    machines
        The number of machines.
    network
        What each machine sends and receives, like 10Gbit or 1.25GB/s.
    memory
        Memory of each machine, like 64GB.
    cores
        Cores of each machine; by default as many as there are here.
    rows
        The number of rows, where it is other than that of the store: 1e9.
    entries
        The mean number of entries of a row.
    columns
        The number of columns.
    center_entries
        Entries of a center; by default from how the columns of the store's rows accumulate.
    moved
        Share of the rows that change their cluster in a later iteration.
    calibrate
        Measure the speeds of this machine, on a sample of the store and its disk.
    """
    from sparsecluster import plan_fit

    shape = {"--rows": rows, "--entries": entries, "--columns": columns}
    missing = [name for name, value in shape.items() if value is None]
    if store is None and missing:
        raise ValueError(f"Give a store, or describe the rows by {', '.join(missing)}.")
    for name, value in shape.items():
        if value is not None and not 0 < value < 2**62:
            raise ValueError(f"{name} must be a positive number, got {value:g}.")
    screen = Screen(running)
    with screen.progress("measuring" if calibrate else "planning"):
        found = plan_fit(
            store,
            n_clusters=clusters,
            machines=machines,
            network=network,
            memory=memory,
            cores=cores,
            rows=rows,
            entries=entries,
            columns=columns,
            center_entries=center_entries,
            moved=moved,
            calibrate=calibrate,
        )
    screen.result(_summary(found), *_lines(found, moved))


def _summary(plan: Plan) -> dict[str, Any]:
    kinds = {"first": plan.first, "later": plan.later}
    names = ("machines", "first_seconds", "later_seconds", "in_memory")
    return {
        "rows": plan.workload.rows,
        "entries": plan.workload.entries,
        "columns": plan.workload.columns,
        "clusters": plan.workload.clusters,
        "center_entries": plan.workload.center_entries,
        "machines": asdict(plan.machines),
        "speeds": asdict(plan.speeds),
        "memory": plan.memory,
        "in_memory": plan.in_memory,
        "possible": plan.possible,
        "iterations": {
            kind: {**asdict(cost), "seconds": cost.seconds, "limit": cost.limit}
            for kind, cost in kinds.items()
        },
        "fewest_machines": plan.fewest,
        "useful_machines": plan.useful,
        "choices": [dict(zip(names, one, strict=True)) for one in plan.choices],
    }


def _lines(plan: Plan, moved: float) -> list[Any]:
    work, machines = plan.workload, plan.machines
    return [
        f"{counted(work.rows, 'row')} x {work.entries:,.4g} entries, {work.columns:,} columns, "
        f"{counted(work.clusters, 'cluster')} of {work.center_entries:,.3g} entries each",
        f"{counted(machines.number, 'machine')} of {counted(machines.cores, 'core')}, "
        f"{size(machines.memory)} and {size(machines.network)}/s; " + _speeds(plan),
        _iterations(plan, moved),
        _memory(plan),
        _choices(plan),
        *_advice(plan),
    ]


def _speeds(plan: Plan) -> str:
    speeds = plan.speeds
    origin = "measured here" if speeds.measured else "assumed (--calibrate measures)"
    return (
        f"{origin}: {speeds.scan / 1e9:.3g} G products and {speeds.update / 1e6:.3g} M entries "
        f"added per second and core, {size(speeds.disk)}/s from disk, later scans "
        f"{speeds.later_share:.0%} of a full one"
    )


def _iterations(plan: Plan, moved: float) -> Any:
    from rich.table import Table

    table = Table(title="one iteration, of each machine", title_justify="left")
    for name in ("", "first: bytes", "s", f"later, {moved:.2g} of rows move: bytes", "s"):
        table.add_column(name, justify="right" if name else "left")
    first, later = plan.first, plan.later
    table.add_row("scan", "", _time(first.scan), "", _time(later.scan))
    if not plan.in_memory:
        rows = size(plan.memory["rows"])
        table.add_row("read from disk", rows, _time(first.disk), rows, _time(later.disk))
    table.add_row("add up rows", "", _time(first.update), "", _time(later.update))
    for name, one, two in (
        ("sums in", first.sums, later.sums),
        ("sums out", first.merged, later.merged),
    ):
        if plan.machines.number == 1:
            break
        ways = "sharded" if one.sharded_seconds <= one.tree_seconds else "tree"
        table.add_row(
            f"{name} ({ways})", size(one.bytes), _time(one.seconds), size(two.bytes),
            _time(two.seconds),
        )  # fmt: skip
        other = (one.tree_seconds, two.tree_seconds)
        table.add_row("  by a tree of eight", "", _time(other[0]), "", _time(other[1]), style="dim")
    table.add_row("scheduling", "", _time(first.scheduling), "", _time(later.scheduling))
    table.add_row("together", "", _time(first.seconds), "", _time(later.seconds), style="bold")
    table.add_row("what limits", "", first.limit, "", later.limit)
    return table


def _memory(plan: Plan) -> str:
    parts = ", ".join(f"{name} {size(one)}" for name, one in plan.memory.items())
    needed = sum(plan.memory.values())
    return f"memory of each machine: {parts}; together {size(needed)}"


def _choices(plan: Plan) -> Any:
    from rich.table import Table

    table = Table()
    for name in ("machines", "first s", "later s", "rows"):
        table.add_column(name, justify="right")
    for number, first, later, in_memory in plan.choices:
        table.add_row(
            f"{number:,}", _time(first), _time(later), "in memory" if in_memory else "from disk",
            style="bold" if number == plan.machines.number else None,
        )  # fmt: skip
    return table


def _advice(plan: Plan) -> list[str]:
    lines = []
    if not plan.possible:
        lines.append(
            "not possible: even without its rows a machine needs more memory than it has; take "
            "fewer clusters, or more or larger machines"
        )
    elif not plan.in_memory:
        from_disk = "each iteration reads the rows from disk; "
        enough = f"they stay in memory from {plan.fewest:,} machines on" if plan.fewest else ""
        lines.append(from_disk + (enough or "no number of such machines holds them in memory"))
    if plan.fewest:
        lines.append(f"fewest machines that hold the rows in memory: {plan.fewest:,}")
    lines.append(
        f"useful machines: up to about {plan.useful:,}; twice as many save less than a fifth of a "
        f"later iteration"
    )
    return lines


def size(n_bytes: float) -> str:
    """Bytes in a unit that leaves few digits."""
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= power:
            return f"{n_bytes / power:.3g} {unit}"
    return f"{n_bytes:.3g} B"


def _time(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}"
