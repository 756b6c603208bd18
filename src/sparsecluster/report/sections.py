"""The head of a report and its pictures, as HTML."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsecluster.report.content import Content, escaped
from sparsecluster.report.facts import Survey
from sparsecluster.report.plots import line_plot, size_plot
from sparsecluster.rows.recipe import Recipe

LONGEST_VALUE = 200
STEEP = 20  # times the lowest cost that the highest must be for a logarithmic scale
# Parameters that are shown elsewhere, or that no result depends on.
HIDDEN = {"n_clusters", "n_threads", "memory_limit", "verbose", "callback"}
HIDDEN |= {"checkpoint", "checkpoint_every"}


# --- head -------------------------------------------------------------------------------------


def tiles(content: Content) -> str:
    """The numbers to see first."""
    estimator, history = content.estimator, getattr(content.estimator, "history_", [])
    n_rows = _rows_of_fit(content)
    told = [
        ("rows", None if n_rows is None else f"{n_rows:,}"),
        ("columns", f"{content.centers.shape[1]:,}"),
        ("clusters", f"{content.n_clusters:,}"),
        ("cost", f"{estimator.inertia_:,.6g}"),
        ("iterations", f"{estimator.n_iter_:,}"),
        ("seconds", f"{sum(record.seconds for record in history):,.3g}" if history else None),
        ("entries of centers", f"{content.centers.nnz:,}"),
    ]
    cells = (
        f'<div class="tile"><dt>{name}</dt><dd id="{name.split()[0]}">{value}</dd></div>'
        for name, value in told
        if value is not None
    )
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def _rows_of_fit(content: Content) -> int | None:
    """How many rows were fitted; None where the model does not tell."""
    fitted = content.fitted
    return None if fitted is None or fitted.labels is None else len(fitted.labels)


def making(content: Content, version: str) -> str:
    """How the model was made."""
    estimator = content.estimator
    kind = type(estimator).__name__
    if kind == "MiniBatchKMeans":
        kind += f", by {estimator.metric} distance"
    lines = [
        ("model", f"{kind}; this page by sparsecluster {version}"),
        ("parameters", _parameters(estimator) or "all as they are by default"),
        *_recipe(estimator.recipe),
    ]
    if content.survey is not None:
        lines.append(("data", _about_data(content, content.survey)))
    items = "".join(f"<div><dt>{name}</dt><dd>{escaped(value)}</dd></div>" for name, value in lines)
    return f'<dl class="making">{items}</dl>'


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
    """A long value cut, still to be escaped."""
    return value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + "…"


def _recipe(recipe: Recipe | None) -> list[tuple[str, str]]:
    """How files become rows, where the model knows it."""
    if recipe is None:
        return []
    lines = []
    for name, chosen in recipe.described().items():
        as_is = "a term is a word, in small letters" if name == "text" else "as they are"
        said = [
            key if value is True else f"{key}={_cut(str(value))}" for key, value in chosen.items()
        ]
        lines.append((name, ", ".join(said) or as_is))
    return lines


def _about_data(content: Content, survey: Survey) -> str:
    cost = float(survey.costs.sum())
    if survey.same_rows:
        said = f"the {survey.n_rows:,} rows of the fit: all are in the clusters that they had"
        if not math.isclose(cost, content.estimator.inertia_, rel_tol=1e-6, abs_tol=1e-12):
            said += f"; without weights their cost is {cost:,.6g}"
        return said
    said = f"{survey.n_rows:,} rows, cost {cost:,.6g}"
    if _rows_of_fit(content) is not None:
        return f"other data than those of the fit: {said}"
    return f"{said}; the model does not tell whether it was fitted to them"


# --- pictures ---------------------------------------------------------------------------------


def history(estimator: Any) -> str:
    """Cost and moved rows against iterations."""
    records = getattr(estimator, "history_", [])
    if not records:
        return "<p>The model has no history: it was learned batch by batch.</p>"
    iterations = [record.iteration for record in records]
    batches = hasattr(estimator, "counts_")
    costs = [record.cost / max(record.rows, 1) if batches else record.cost for record in records]
    scale = "log" if min(costs) > 0 and max(costs) > STEEP * min(costs) else "linear"
    cost = "cost per row of the batch" if batches else "cost"
    pictures = [
        (cost, line_plot(iterations, costs, title=cost, below="iteration", scale=scale)),
        (
            "rows that moved",
            line_plot(
                iterations,
                [record.moved for record in records],
                title="rows that moved to another cluster",
                below="iteration",
                scale="log1p",
            ),
        ),
    ]
    figures = "".join(
        f"<figure><figcaption>{name}</figcaption>{picture}</figure>" for name, picture in pictures
    )
    return f'<div class="figures">{figures}</div>{_of_runs(estimator, records)}'


def _of_runs(estimator: Any, records: Any) -> str:
    if estimator.n_init == 1 or hasattr(estimator, "counts_"):
        return ""
    return (
        f"<p>Of {estimator.n_init} runs this is the one kept, run {records[-1].run} (from 0).</p>"
    )


def sizes(content: Content) -> str:
    """How the rows spread over the clusters."""
    counts = content.sizes
    if counts is None:
        return "<p>The model keeps no sizes of its clusters; give the data to see them.</p>"
    what = "rows"
    if content.fitted is not None and content.fitted.labels is None:
        what = "rows that each center has seen"
    order = content.order
    picture = size_plot(
        order, counts[order], title=f"{what} of each cluster", linked=content.has_line
    )
    figure = f"<figure><figcaption>{what}</figcaption>{picture}</figure>"
    told = f'<div class="figures">{figure}{_uneven(counts)}</div>'
    if content.other_data and content.survey is not None:
        other = content.survey.sizes
        order = [int(i) for i in np.lexsort((np.arange(len(other)), -other))]
        picture = size_plot(
            order, other[order], title="rows of the data given", linked=content.has_line
        )
        figure = f"<figure><figcaption>rows of the data given</figcaption>{picture}</figure>"
        told += f'<div class="figures">{figure}{_uneven(other)}</div>'
    return told


def _uneven(counts: np.ndarray) -> str:
    total = max(float(counts.sum()), 1.0)
    lines = [
        ("largest", f"{_how_many(counts.max(), 'row')}, {counts.max() / total:.1%} of all"),
        ("median", _how_many(np.median(counts), "row")),
        ("smallest", _how_many(counts.min(), "row")),
        ("of one row", _how_many((counts == 1).sum(), "cluster")),
    ]
    if not counts.all():
        lines.append(("empty", _how_many((counts == 0).sum(), "cluster")))
    half = int(np.searchsorted(np.cumsum(np.sort(counts)[::-1]), total / 2)) + 1
    lines.append(
        ("half of all rows", "in the largest" if half == 1 else f"in the {half:,} largest")
    )
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in lines)
    return f'<dl class="making">{items}</dl>'


def _how_many(n: float, noun: str) -> str:
    return f"no {noun}" if n == 0 else f"{n:,.12g} {noun}{'' if n == 1 else 's'}"
