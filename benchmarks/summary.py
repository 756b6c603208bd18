"""Several runs of a system in one line, and the ratio of ours to the best peer's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from .systems import OURS, SYSTEMS


@dataclass(frozen=True)
class Summary:
    """A system on a task, over its seeds. Times are medians, costs means, memory in MB.

    limited : the time (and the memory) is only a lower bound, because runs were stopped.
    """

    kind: str
    system: str
    data: str
    k: int
    threads: int
    status: str
    runs: int
    seconds: float | None = None
    fastest: float | None = None
    slowest: float | None = None
    limited: bool = False
    cost: float | None = None
    stated_cost: float | None = None
    memory: float | None = None
    iterations: float | None = None
    cores: float | None = None
    digests: tuple[str, ...] = ()
    message: str = ""


def summarise(runs: list[dict[str, Any]]) -> Summary:
    """Runs of one system on one task with different seeds."""
    first, timed = runs[0], [run for run in runs if run.get("seconds") is not None]
    done = [run for run in runs if run["status"] == "ok"]
    stopped = [run for run in timed if run["status"] == "timeout"]
    failed = [run for run in runs if run not in timed]

    def values(name: str, among: list[dict[str, Any]]) -> list[float]:
        return [run[name] for run in among if run.get(name) is not None]

    def middle(name: str, among: list[dict[str, Any]]) -> float | None:
        found = values(name, among)
        return float(median(found)) if found else None

    costs, stated = values("cost", done), values("stated_cost", done)
    seconds = values("seconds", timed)
    return Summary(
        first["kind"], first["system"], first["data"], first["k"], first["threads"],
        status="ok" if done else first["status"],
        runs=len(done),
        seconds=middle("seconds", timed),
        fastest=min(seconds, default=None),
        slowest=max(seconds, default=None),
        limited=2 * len(stopped) >= len(timed) > 0,
        cost=fmean(costs) if costs else None,
        stated_cost=fmean(stated) if stated else None,
        memory=middle("memory", timed),
        iterations=middle("iterations", done),
        cores=middle("cores", done),
        digests=tuple(run["digest"] for run in done),
        message=failed[0].get("message", "") if failed else "",
    )  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """One figure: ours against theirs; `bound` when theirs was stopped and is at least that."""

    what: str
    data: str
    k: int
    ours: float | None
    theirs: float | None
    value: float | None
    peer: str = ""
    bound: bool = False
    unit: str = "s"
    cost: float | None = None
    cost_lowest: float | None = None
    note: str = ""


def against_best(
    what: str, summaries: Iterable[Summary], *, measure: str = "seconds", name: str = OURS
) -> Ratio | None:
    """Theirs over ours, for the peer with the least time (or memory); None where ours is absent.

    The cost is given relative to that peer's and to the lowest of all peers.
    """
    summaries = list(summaries)
    ours = next((one for one in summaries if one.system == name), None)
    if ours is None or getattr(ours, measure) is None or ours.limited:
        return None
    unit = "s" if measure == "seconds" else "MB"
    mine = getattr(ours, measure)
    peers = [
        one
        for one in summaries
        if not SYSTEMS[one.system].ours and getattr(one, measure) is not None
    ]
    finished = [one for one in peers if not one.limited]
    if not peers:
        return Ratio(what, ours.data, ours.k, mine, None, None, unit=unit)
    best = min(finished or peers, key=lambda one: getattr(one, measure))
    theirs = getattr(best, measure)
    value = theirs / max(mine, 1e-9 if unit == "s" else 1.0)
    lowest = min((one.cost for one in peers if one.cost), default=None)
    return Ratio(
        what, ours.data, ours.k, mine, theirs, value, best.system,
        bound=best.limited, unit=unit,
        cost=over(ours.cost, best.cost),
        cost_lowest=over(ours.cost, lowest),
    )  # fmt: skip


def over(value: float | None, reference: float | None) -> float | None:
    """Their quotient, where both are known."""
    return value / reference if value is not None and reference else None
