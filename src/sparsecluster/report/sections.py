"""The head of a report and its pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsecluster.report.facts import Content, Survey, largest_first
from sparsecluster.report.plots import line_plot, size_plot
from sparsecluster.report.templating import shorten
from sparsecluster.rows.errors import counted
from sparsecluster.rows.recipe import Recipe

MANY_VALUES = 10  # of an option, to be shown
STEEP = 20  # times the lowest cost that the highest must be for a logarithmic scale
# Parameters that are shown elsewhere, or that no result depends on.
HIDDEN = {"n_clusters", "n_threads", "memory_limit", "verbose", "callback"}
HIDDEN |= {"checkpoint", "checkpoint_every"}


# --- head -------------------------------------------------------------------------------------


def tiles(content: Content) -> list[tuple[str, str]]:
    """The numbers to see first."""
    estimator, history = content.estimator, getattr(content.estimator, "history_", [])
    fitted = content.rows_of_fit
    told = [
        ("rows", "" if fitted is None else f"{fitted:,}"),
        ("columns", f"{content.centers.shape[1]:,}"),
        ("clusters", f"{content.n_clusters:,}"),
        ("cost", f"{estimator.inertia_:,.6g}"),
        ("iterations", f"{estimator.n_iter_:,}"),
        ("seconds", f"{sum(record.seconds for record in history):,.3g}" if history else ""),
        ("entries of centers", f"{content.centers.nnz:,}"),
    ]
    return [(name, value) for name, value in told if value]


def making(content: Content, version: str) -> list[tuple[str, str]]:
    """How the model was made."""
    estimator = content.estimator
    kind = type(estimator).__name__
    if kind == "MiniBatchKMeans":
        kind += f", by {estimator.metric} distance"
    lines = [
        ("model", f"{kind}; this page by sparsecluster {version}"),
        ("parameters", chosen_parameters(estimator)),
        *size_lines(estimator),
        *recipe_lines(estimator.recipe),
    ]
    if content.survey is not None:
        lines.append(("data", _about_data(content, content.survey)))
    return lines


def chosen_parameters(estimator: Any) -> str:
    """The parameters that are not left at their defaults."""
    usual = type(estimator)().get_params(deep=False)
    chosen = {
        name: _shortly(value)
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in HIDDEN and _shortly(value) != _shortly(usual[name])
    }
    return ", ".join(f"{name}={value}" for name, value in chosen.items()) or "all defaults"


def _shortly(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"given, {' × '.join(f'{n:,}' for n in shape)}" if shape else shorten(repr(value), 200)


def size_lines(estimator: Any) -> list[tuple[str, str]]:
    """The bounds that the clusters of the fit keep, where they have any."""
    least, most = (getattr(estimator, name, None) for name in ("size_min", "size_max"))
    if least is None and most is None:
        return []
    kept = f"at least {least:,} rows" if most is None else f"{least or 1:,} to {most:,} rows"
    return [("sizes", f"{kept} in each cluster of the fit; nearest centers do not keep to that")]


def recipe_lines(recipe: Recipe | None) -> list[tuple[str, str]]:
    """How files become rows, where the model knows it."""
    described = {} if recipe is None else recipe.described()
    as_is = {"text": "terms are lowercase words"}
    return [
        (
            name,
            ", ".join(f"{key}={_some(value)}" for key, value in chosen.items())
            or as_is.get(name, "unchanged"),
        )
        for name, chosen in described.items()
    ]


def _some(value: Any) -> str:
    """A value of a recipe: of many, such as stop words, the first ones and how many more."""
    if isinstance(value, list) and len(value) > MANY_VALUES:
        return f"{value[:MANY_VALUES]} and {len(value) - MANY_VALUES:,} more"
    return shorten(value, 200)


def _about_data(content: Content, survey: Survey) -> str:
    cost = float(survey.costs.sum())
    if survey.same_rows:
        said = f"the {survey.n_rows:,} rows of the fit: every row kept its cluster"
        if not math.isclose(cost, content.estimator.inertia_, rel_tol=1e-6, abs_tol=1e-12):
            said += f"; without weights their cost is {cost:,.6g}"
        return said
    said = f"{survey.n_rows:,} rows, cost {cost:,.6g}"
    if size_lines(content.estimator):
        return f"{said}, by nearest centers"
    if content.rows_of_fit is not None:
        return f"other data than the fit's: {said}"
    return f"{said}; the model does not say whether it was fitted to them"


# --- pictures ---------------------------------------------------------------------------------


def history(estimator: Any) -> dict[str, Any] | None:
    """Cost and moved rows against iterations; None where the model has no history."""
    records = getattr(estimator, "history_", [])
    if not records:
        return None
    iterations = [record.iteration for record in records]
    batches = hasattr(estimator, "counts_")
    figures = []
    for space in dict.fromkeys(record.space for record in records):
        # Costs of different spaces do not go into one picture.
        own = [record for record in records if record.space == space]
        costs = [record.cost / max(record.rows, 1) if batches else record.cost for record in own]
        scale = "log" if min(costs) > 0 and max(costs) > STEEP * min(costs) else "linear"
        cost = "cost per row of the batch" if batches else "cost"
        cost += "" if space == "original" else f" of the {space} rows"
        at = [record.iteration for record in own]
        figures.append((cost, line_plot(at, costs, title=cost, scale=scale)))
    moved, title = [record.moved for record in records], "rows that moved to another cluster"
    figures.append(("rows that moved", line_plot(iterations, moved, title=title, scale="log1p")))
    return {
        "figures": figures,
        "n_runs": 1 if batches else estimator.n_starts,
        "run": records[-1].run,
    }


def sizes(content: Content) -> list[dict[str, Any]]:
    """How the rows spread over the clusters: those of the fit, and those given."""
    told = []
    if content.sizes is not None:
        name = "rows that each center has seen" if content.counts_seen else "rows"
        told.append((name, f"{name} of each cluster", content.sizes))
    if content.other_data:
        told.append(("rows of the data given",) * 2 + (content.other_data.sizes,))
    return [
        {
            "name": name,
            "picture": size_plot(
                (order := largest_first(counts)), counts[order], title=title, linked=content.shown
            ),
            "facts": uneven_lines(counts),
        }
        for name, title, counts in told
    ]


def uneven_lines(counts: np.ndarray, of: str = "all") -> list[tuple[str, str]]:
    """How unequal the sizes of clusters are; `of` says which rows they hold."""
    total = max(float(counts.sum()), 1.0)
    half = int(np.searchsorted(np.cumsum(np.sort(counts)[::-1]), total / 2)) + 1
    lines = [
        ("largest", f"{counted(counts.max(), 'row')}, {counts.max() / total:.1%} of {of}"),
        ("median", counted(np.median(counts), "row")),
        ("smallest", counted(counts.min(), "row")),
        ("with one row", counted((counts == 1).sum(), "cluster")),
        ("empty", counted((counts == 0).sum(), "cluster")),
        (f"half of {of} rows", "in the largest" if half == 1 else f"in the {half:,} largest"),
    ]
    return [(name, value) for name, value in lines if (name, value) != ("empty", "0 clusters")]
