"""What is made of the measurements of embedding.py: tables, plots, and what held of the paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

from . import output

# What the paper says of its figures (4.2), in which only the axes have numbers: accuracy in
# percent, reduction and clustering seconds.
CLAIMS = {
    "grows": "accuracy and running times of all methods grow with the dimensions",
    "accuracy": "SE is the most accurate of all reductions",
    "low": "LLE and LS are among the less accurate",
    "slow": "SVD and LLE are the slowest to reduce",
    "RP": "the time of RP grows with the dimensions",
    "fast": "SE is the fastest to reduce, at the same time for any dimensions",
    "clustering": "clustering is much faster after every reduction than with all columns",
}
AXES = {
    "COIL20": {"accuracy": (10, 70), "reduction": (1e-3, 1e1), "clustering": (1e-2, 1e1)},
    "sector": {"accuracy": (0, 20), "reduction": (1e-2, 1e4), "clustering": (1e-1, 1e2)},
    "rcv1": {"accuracy": (10, 30), "reduction": (1e0, 1e3), "clustering": (1e1, 1e3)},
    "ILSVRC2012": {"accuracy": (0, 40), "reduction": (1e-2, 1e4), "clustering": (1e3, 1e4)},
}
NOT_IN_TIME = {"rcv1": ("SVD", "LLE", "LS"), "ILSVRC2012": ("SVD", "LLE", "LS")}  # in three days
QUANTITIES = {"accuracy": mean, "cost": mean, "reduction": min, "clustering": min, "MB": median}
Series = dict[int, dict[str, float]]


def series(result: dict[str, Any]) -> Series:
    """By dimensions: each quantity over the seeds (times: the lowest), and spreads."""
    found: Series = {}
    for d in sorted({one["d"] for one in result["runs"]}):
        runs = [one for one in result["runs"] if one["d"] == d]
        found[d] = {name: how([run[name] for run in runs]) for name, how in QUANTITIES.items()}
        for name in ("accuracy", "cost"):
            found[d][f"{name} spread"] = pstdev([run[name] for run in runs])
        found[d]["seeds"] = len(runs)
    return found


def in_short(result: dict[str, Any]) -> str:
    """How many runs, and what was left out."""
    n_runs = len(result["runs"])
    told = [f"{n_runs} run{'s' if n_runs != 1 else ''}"]
    if result["skipped"]:
        by_reason: dict[str, list[str]] = {}
        for d, reason in result["skipped"].items():
            by_reason.setdefault(reason.split(". ")[0], []).append(str(d))
        told += [f"skipped at d' = {', '.join(ds)}: {why}" for why, ds in by_reason.items()]
    if result["stopped"]:
        told.append(f"stopped: {result['stopped']}")
    return "; ".join(told)


def show(name: str, found: dict[str, Any]) -> None:
    """A table of one set."""
    base = series(found["methods"].get("k-means", {"runs": []})).get(0)
    lines = []
    for method, result in found["methods"].items():
        for d, one in series(result).items():
            cost = (
                f"{100 * (one['cost'] / base['cost'] - 1):+.2f}%" if base else f"{one['cost']:.5g}"
            )
            lines.append([
                f"{method}, d' = {d}" if d else method,
                f"{100 * one['accuracy']:.1f} ± {100 * one['accuracy spread']:.1f}", cost,
                f"{one['reduction']:.3f}" if d else "-", f"{one['clustering']:.3f}",
                f"{one['MB']:.0f}", f"{one['seeds']:.0f}",
            ])  # fmt: skip
        if result["skipped"] or result["stopped"]:
            lines.append([f"{method}: {in_short(result)[:90]}", "", "", "", "", "", ""])
    axes = AXES.get(name)
    beside = (
        f"; the paper's axis of accuracy: {axes['accuracy'][0]}-{axes['accuracy'][1]}%"
        if axes
        else ""
    )
    title = (
        f"{name}: {found['rows']:,} x {found['columns']:,}, K = {found['classes']}, largest class "
    )
    title += f"{100 * found['largest']:.1f}%{beside}"
    columns = ["", "accuracy %", "cost", "reduction s", "clustering s", "MB", "seeds"]
    output.show(title, columns, lines)


# --- what held -----------------------------------------------------------------------------------


def verdict(found: dict[str, Any]) -> list[str]:
    """A paragraph a set: which claims of the paper held, from the measurements."""
    return [f"{name}: " + " ".join(judged(one)) for name, one in found.items()]


def judged(found: dict[str, Any]) -> list[str]:
    by_method = {method: series(result) for method, result in found["methods"].items()}
    plain = by_method.pop("k-means", {}).get(0)
    by_method = {method: points for method, points in by_method.items() if points}
    told = []
    told += _growth(by_method)
    told += _trivial(by_method, found["largest"])
    told += _ranks(by_method)
    if plain:
        told += _against_plain(by_method, plain)
    for method, result in found["methods"].items():
        if result["skipped"] or result["stopped"]:
            told.append(f"{method}: {in_short(result)}.")
    return told


def _ends(points: Series, name: str) -> tuple[float, float]:
    return points[min(points)][name], points[max(points)][name]


def _growth(by_method: dict[str, Series]) -> list[str]:
    several = {method: points for method, points in by_method.items() if len(points) > 1}
    if not several:
        return []
    risen = [m for m, points in several.items() if _gain(points, "accuracy") > 0]
    slower = [m for m, points in several.items() if _gain(points, "clustering") > 0]
    told = [
        f"From the fewest dimensions to the most, accuracy rose for {_listed(risen, several)}, and "
        f"clustering time for {_listed(slower, several)} (paper: both for all)."
    ]
    for method in ("RP", "SE"):
        if method in several:
            first, last = _ends(several[method], "reduction")
            least, most = min(several[method]), max(several[method])
            said = "grows" if method == "RP" else "stays the same"
            told.append(
                f"{method} took {last / first:.1f} times as long to reduce to {most} as to {least} "
                f"(paper: {said})."
            )
    return told


def _trivial(by_method: dict[str, Series], largest: float) -> list[str]:
    """Accuracy that a single cluster would have, too."""
    by_size = {
        method: [d for d, one in points.items() if abs(one["accuracy"] - largest) < 0.005]
        for method, points in by_method.items()
    }
    told = [f"{m} at d' = {', '.join(map(str, ds))}" for m, ds in by_size.items() if ds]
    if not told:
        return []
    return [
        f"A single cluster has the accuracy of the largest class, {100 * largest:.1f} %; so have "
        f"{'; '.join(told)}."
    ]


def _gain(points: Series, name: str) -> float:
    first, last = _ends(points, name)
    return last - first


def _listed(some: list[str], of: dict[str, Any]) -> str:
    if len(some) == len(of):
        return "all"
    return ", ".join(some) if some else "none"


def _ranks(by_method: dict[str, Series]) -> list[str]:
    """Compared at the most dimensions of SE; a method that did not come as far is left out."""
    if "SE" not in by_method:
        return []
    d = max(by_method["SE"])
    most = {method: points[d] for method, points in by_method.items() if d in points}
    if len(most) < 2:
        return []
    accurate = _ordered(most, lambda one: -one["accuracy"])
    quick = _ordered(most, lambda one: one["reduction"])
    own, best = most["SE"], most[accurate[0]]
    figures = ", ".join(f"{m} {100 * most[m]['accuracy']:.1f}" for m in accurate)
    told = [f"By accuracy at d' = {d}: {figures} %."]
    if accurate[0] == "SE":
        told.append("SE is first, as the paper has it.")
    else:
        told.append(
            f"SE is number {accurate.index('SE') + 1}, "
            f"{100 * (best['accuracy'] - own['accuracy']):.1f} points below {accurate[0]}, with "
            f"spreads of {100 * own['accuracy spread']:.1f} and "
            f"{100 * best['accuracy spread']:.1f} (paper: SE first)."
        )
    slowest = quick[::-1][:2]
    next_best = quick[1] if quick[0] == "SE" else quick[0]
    ratio = most[next_best]["reduction"] / own["reduction"]
    told.append(
        f"SE is {'the fastest to reduce' if quick[0] == 'SE' else 'not the fastest to reduce'}, "
        f"{ratio:.1f} times the speed of {next_best}"
        + (f", {most['RP']['reduction'] / own['reduction']:.0f} times that of RP" if "RP" in most
           else "")
        + f"; the slowest that came as far are {' and '.join(slowest)} (paper: SVD and LLE)."
    )  # fmt: skip
    return told


def _ordered(most: dict[str, Any], key: Callable[[Any], float]) -> list[str]:
    return sorted(most, key=lambda method: key(most[method]))


def _against_plain(by_method: dict[str, Series], plain: dict[str, float]) -> list[str]:
    faster, whole, costs = [], [], []
    for method, points in by_method.items():
        one = points[max(points)]
        if one["clustering"] < plain["clustering"]:
            faster.append(method)
        if any(p["clustering"] + p["reduction"] < plain["clustering"] for p in points.values()):
            whole.append(method)
        costs.append(f"{method} {100 * (one['cost'] / plain['cost'] - 1):+.1f}")
    accuracy, spread = (100 * plain[name] for name in ("accuracy", "accuracy spread"))
    return [
        f"Plain k-means: accuracy {accuracy:.1f} ± {spread:.1f} %, {plain['clustering']:.3f} s. At "
        f"its most dimensions clustering alone was faster than that for "
        f"{_listed(faster, by_method)} (paper: all); with the reduction, at some dimensions, for "
        f"{_listed(whole, by_method)}. Cost in the original space against plain k-means, in %: "
        f"{', '.join(costs)}."
    ]


# --- files ---------------------------------------------------------------------------------------


def record(found: dict[str, Any], given: dict[str, Any], budget: float) -> dict[str, Any]:
    return {
        "task": given | {"budget": budget}, "found": found, "verdict": verdict(found),
        "paper": {"claims": CLAIMS, "axes": AXES, "not within three days": NOT_IN_TIME},
    }  # fmt: skip


def keep(path: Path, found: dict[str, Any], given: dict[str, Any], budget: float) -> None:
    """What there is so far, in case that the rest never comes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".partial.json").write_text(json.dumps(record(found, given, budget)))


def draw(path: Path, found: dict[str, Any]) -> None:
    """Figures 1-3 and the cost, one row each; a column a set."""
    path.with_suffix(".partial.json").unlink(missing_ok=True)
    try:
        import matplotlib
    except ImportError:
        return output.tell("No plot: matplotlib is not installed (extra `bench`).")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {
        "accuracy": "accuracy, %", "cost": "cost above plain k-means, %",
        "reduction": "reduction, s", "clustering": "clustering, s",
    }  # fmt: skip
    figure, axes = pyplot.subplots(
        len(rows), len(found), figsize=(3.9 * len(found), 2.8 * len(rows)), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for column, (name, one) in enumerate(found.items()):
        for row, (quantity, label) in enumerate(rows.items()):
            axis = axes[row][column]
            _panel(axis, quantity, one)
            if row == 0:
                title = f"{name}, {one['rows']:,} x {one['columns']:,}, K = {one['classes']}"
                axis.set_title(title, fontsize=9)
            if column == 0:
                axis.set_ylabel(label)
            if row == len(rows) - 1:
                axis.set_xlabel("dimensions d'")
    handles = {}
    for axis in axes.ravel():
        handles |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=len(handles), fontsize=9
    )
    figure.savefig(path.with_suffix(".png"), dpi=130)
    pyplot.close(figure)
    output.tell(f"written: {path.with_suffix('.png')}")


def _panel(axis: Any, quantity: str, found: dict[str, Any]) -> None:
    scale = 100 if quantity == "accuracy" else 1
    plain = series(found["methods"].get("k-means", {"runs": []})).get(0)
    for number, (method, result) in enumerate(found["methods"].items()):
        points = series(result)
        if method == "k-means":
            if plain and quantity in ("accuracy", "clustering"):
                axis.axhline(scale * plain[quantity], color="black", ls="--", lw=1, label=method)
            continue
        if not points or (quantity == "cost" and not plain):
            continue
        base = plain["cost"] if quantity == "cost" and plain else 1.0
        values = [
            100 * (one["cost"] / base - 1) if quantity == "cost" else scale * one[quantity]
            for one in points.values()
        ]
        style = {"color": f"C{number % 10}", "lw": 2.4 if method == "SE" else 1.2}
        axis.plot(list(points), values, "o-", ms=3, label=method, **style)
        if f"{quantity} spread" in points[max(points)]:
            factor = 100 / base if quantity == "cost" else scale
            spread = [factor * one[f"{quantity} spread"] for one in points.values()]
            low = [value - by for value, by in zip(values, spread, strict=True)]
            high = [value + by for value, by in zip(values, spread, strict=True)]
            axis.fill_between(list(points), low, high, color=style["color"], alpha=0.12, lw=0)
    if quantity in ("reduction", "clustering"):
        axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
