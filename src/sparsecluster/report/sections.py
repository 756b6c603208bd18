"""The head of a report and its pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsecluster.report.content import Content, largest_first
from sparsecluster.report.facts import Survey
from sparsecluster.report.plots import line_plot, size_plot
from sparsecluster.rows.recipe import Recipe

LONGEST_VALUE = 200
STEEP = 20  # times the lowest cost that the highest must be for a logarithmic scale
# Parameters that are shown elsewhere, or that no result depends on.
HIDDEN = {"n_clusters", "n_threads", "memory_limit", "verbose", "callback"}
HIDDEN |= {"checkpoint", "checkpoint_every"}


# --- head -------------------------------------------------------------------------------------


def tiles(content: Content) -> list[tuple[str, str]]:
    """The numbers to see first."""
    estimator, history = content.estimator, getattr(content.estimator, "history_", [])
    n_rows = _rows_of_fit(content)
    told = [
        ("rows", "" if n_rows is None else f"{n_rows:,}"),
        ("columns", f"{content.centers.shape[1]:,}"),
        ("clusters", f"{content.n_clusters:,}"),
        ("cost", f"{estimator.inertia_:,.6g}"),
        ("iterations", f"{estimator.n_iter_:,}"),
        ("seconds", f"{sum(record.seconds for record in history):,.3g}" if history else ""),
        ("entries of centers", f"{content.centers.nnz:,}"),
    ]
    return [(name, value) for name, value in told if value]


def _rows_of_fit(content: Content) -> int | None:
    """How many rows were fitted; None where the model does not say."""
    fitted = content.fitted
    return None if fitted is None or fitted.labels is None else len(fitted.labels)


def making(content: Content, version: str) -> list[tuple[str, str]]:
    """How the model was made."""
    estimator = content.estimator
    kind = type(estimator).__name__
    if kind == "MiniBatchKMeans":
        kind += f", by {estimator.metric} distance"
    lines = [
        ("model", f"{kind}; this page by sparsecluster {version}"),
        ("parameters", _parameters(estimator) or "all defaults"),
        *_recipe(estimator.recipe),
    ]
    if content.survey is not None:
        lines.append(("data", _about_data(content, content.survey)))
    return lines


def _parameters(estimator: Any) -> str:
    """The parameters that were chosen."""
    usual = type(estimator)().get_params()
    chosen = {
        name: _shortly(value)
        for name, value in sorted(estimator.get_params().items())
        if name not in HIDDEN and _shortly(value) != _shortly(usual[name])
    }
    return ", ".join(f"{name}={value}" for name, value in chosen.items())


def _shortly(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape:
        return f"given, {' × '.join(f'{n:,}' for n in shape)}"
    return _cut(repr(value))


def _cut(value: str) -> str:
    """A long value cut."""
    return value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "…"


def _recipe(recipe: Recipe | None) -> list[tuple[str, str]]:
    """How files become rows, where the model knows it."""
    if recipe is None:
        return []
    lines = []
    for name, chosen in recipe.described().items():
        as_is = "terms are lowercase words" if name == "text" else "unchanged"
        said = [
            key if value is True else f"{key}={_cut(str(value))}" for key, value in chosen.items()
        ]
        lines.append((name, ", ".join(said) or as_is))
    return lines


def _about_data(content: Content, survey: Survey) -> str:
    cost = float(survey.costs.sum())
    if survey.same_rows:
        said = f"the {survey.n_rows:,} rows of the fit: every row kept its cluster"
        if not math.isclose(cost, content.estimator.inertia_, rel_tol=1e-6, abs_tol=1e-12):
            said += f"; without weights their cost is {cost:,.6g}"
        return said
    said = f"{survey.n_rows:,} rows, cost {cost:,.6g}"
    if _rows_of_fit(content) is not None:
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
    costs = [record.cost / max(record.rows, 1) if batches else record.cost for record in records]
    scale = "log" if min(costs) > 0 and max(costs) > STEEP * min(costs) else "linear"
    cost = "cost per row of the batch" if batches else "cost"
    moved = line_plot(
        iterations,
        [record.moved for record in records],
        title="rows that moved to another cluster",
        below="iteration",
        scale="log1p",
    )
    return {
        "figures": [
            (cost, line_plot(iterations, costs, title=cost, below="iteration", scale=scale)),
            ("rows that moved", moved),
        ],
        "n_runs": 1 if batches else estimator.n_init,
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
                (order := largest_first(counts)), counts[order], title=title, linked=content.linked
            ),
            "facts": _uneven(counts),
        }
        for name, title, counts in told
    ]


def _uneven(counts: np.ndarray) -> list[tuple[str, str]]:
    total = max(float(counts.sum()), 1.0)
    lines = [
        ("largest", f"{_how_many(counts.max(), 'row')}, {counts.max() / total:.1%} of all"),
        ("median", _how_many(np.median(counts), "row")),
        ("smallest", _how_many(counts.min(), "row")),
        ("with one row", _how_many((counts == 1).sum(), "cluster")),
    ]
    if not counts.all():
        lines.append(("empty", _how_many((counts == 0).sum(), "cluster")))
    half = int(np.searchsorted(np.cumsum(np.sort(counts)[::-1]), total / 2)) + 1
    lines.append(
        ("half of all rows", "in the largest" if half == 1 else f"in the {half:,} largest")
    )
    return lines


def _how_many(n: float, noun: str) -> str:
    return f"{n:,.12g} {noun}{'' if n == 1 else 's'}"
