"""`sparsecluster inspect`: what is in a data file, a store or a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsecluster.cli.clusters import (
    cluster_tree_summary,
    clusters_table,
    fit_summary,
    phases_of,
    tree_summary,
)
from sparsecluster.cli.densities import density_lines, density_summary
from sparsecluster.cli.models import has_centers, is_model, only_transforms
from sparsecluster.cli.options import Clusters, Reading, Running, Shown
from sparsecluster.cli.screen import Screen
from sparsecluster.cli.words import in_options
from sparsecluster.formats.inputs import shown
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    import numpy as np

    from sparsecluster.rows.recipe import Recipe


def inspect(
    path: Path,
    *,
    clusters: Clusters = 100,
    terms: Shown = 10,
    verify: Annotated[bool, Parameter(negative=())] = False,
    reading: Reading = Reading(),
    running: Running = Running(),
) -> None:
    """Show what a data file, a store or a model holds.

    Parameters
    ----------
    path
        The file or store: shape, density, row lengths, values, frequent columns, and the memory
        that a fit would need. Of a model: what was fitted, and its clusters.
    clusters
        The number of clusters to estimate the memory for.
    terms
        How many frequent columns, or terms per cluster, to show.
    verify
        Verify all checksums of a store or a model.
    """
    screen = Screen(running)
    if is_model(path):
        summary, lines = _model(path, terms, verify)
    else:
        with screen.progress(f"inspecting {path.name}", path) as show:
            summary, lines = _data(path, clusters, terms, verify, reading, running, show)
    screen.result(summary, *lines)


def _model(path: Path, terms: int, verify: bool) -> tuple[dict[str, Any], list[Any]]:
    from sparsecluster.report.sections import chosen_parameters, recipe_lines
    from sparsecluster.storage.model import load_model

    estimator = load_model(path, verify=verify or None)
    if hasattr(estimator, "linkage_"):
        return _tree_model(path, estimator, terms)
    if hasattr(estimator, "n_leaves_"):
        return _cluster_tree(estimator, path)
    if only_transforms(estimator):
        return _transformer(estimator, path)
    if not has_centers(estimator):
        return _density(estimator, path)
    estimator.check_is_fitted()  # a stream without centers yet says how many rows it waits for
    given = estimator.get_params(deep=False)
    parameters = {name: _plain(value) for name, value in sorted(given.items())}
    centers = estimator.cluster_centers_
    stored = int(getattr(centers, "nnz", centers.size))
    recipe = estimator.recipe
    summary: dict[str, Any] = {
        "kind": "model",
        **fit_summary(estimator, terms),
        "seconds_by_phase": phases_of(estimator),
        "columns": int(estimator.n_features_in_),
        "named_columns": estimator.feature_names_ is not None,
        "center_entries": stored,
        "bytes": path.stat().st_size,
        "parameters": parameters,
        "format": recipe and recipe.format,
        "recipe": recipe and recipe.described(),
    }
    of_batch = ""
    if hasattr(estimator, "counts_") and not hasattr(estimator, "history_"):
        of_batch = ", of the last batch"
    iterations = counted(summary["iterations"], "iteration")
    rows = [
        ("model", f"{summary['estimator']}, {summary['bytes'] / 1e6:,.1f} MB"),
        ("parameters", in_options(chosen_parameters(estimator))),
        ("clusters", f"{summary['clusters']:,}"),
        (
            "columns",
            f"{summary['columns']:,}" + (" with names" if summary["named_columns"] else ""),
        ),
        ("center entries", f"{stored:,}"),
        ("cost", f"{summary['cost']:.6g} after {iterations}{of_batch}"),
        *((name, in_options(value)) for name, value in recipe_lines(recipe)),
    ]
    lines = [_grid(rows)]
    if summary["sizes"] is not None:
        lines += clusters_table(estimator, terms)
    return summary, lines


def _density(estimator: Any, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """A model of clusters by density."""
    found = density_summary(estimator)
    summary = _model_summary(estimator, path, {**found, "rows": len(estimator.labels_)})
    rows = _model_rows(estimator, summary, [("columns", f"{summary['columns']:,}")])
    return summary, [_grid(rows), *density_lines(estimator, found)]


def _transformer(estimator: Any, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """A model that makes other columns."""
    n_components = len(estimator.get_feature_names_out())
    found = {"estimator": type(estimator).__name__, "components": n_components}
    summary = _model_summary(estimator, path, found)
    columns = f"{summary['columns']:,}, of which it makes {n_components:,}"
    return summary, [_grid(_model_rows(estimator, summary, [("columns", columns)]))]


def _tree_model(path: Path, estimator: Any, terms: int) -> tuple[dict[str, Any], list[Any]]:
    """A model of a tree."""
    found = {**tree_summary(estimator), "seconds_by_phase": phases_of(estimator)}
    summary = _model_summary(estimator, path, found)
    about = [
        ("merges", f"{summary['merges']:,}, {summary['inversions']:,} of them inversions"),
        ("clusters", f"{summary['clusters']:,}, cut above {summary['cut_above']:.6g}"),
    ]
    rows = _model_rows(estimator, summary, about)
    return summary, [_grid(rows), *clusters_table(estimator, terms)]


def _cluster_tree(estimator: Any, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """A model of a tree from the root down."""
    found = {**cluster_tree_summary(estimator), "seconds_by_phase": phases_of(estimator)}
    summary = _model_summary(estimator, path, found)
    about = [
        (
            "leaves",
            f"{summary['clusters']:,}, of {min(found['sizes']):,} to {max(found['sizes']):,} rows",
        ),
        ("nodes", f"{summary['nodes']:,} on {summary['levels']:,} levels below the root"),
        ("cost", f"{summary['cost']:.6g}"),
    ]
    return summary, [_grid(_model_rows(estimator, summary, about))]


def _model_summary(estimator: Any, path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What was found, and what there is to say about every model without centers."""
    recipe = estimator.recipe
    return {
        "kind": "model",
        **found,
        "columns": int(estimator.n_features_in_),
        "bytes": path.stat().st_size,
        "parameters": {name: _plain(one) for name, one in sorted(estimator.get_params().items())},
        "format": recipe and recipe.format,
        "recipe": recipe and recipe.described(),
    }


def _model_rows(estimator: Any, summary: dict[str, Any], about: list[Any]) -> list[Any]:
    """The lines on a model without centers."""
    from sparsecluster.report.sections import chosen_parameters, recipe_lines

    return [
        ("model", f"{summary['estimator']}, {summary['bytes'] / 1e6:,.1f} MB"),
        ("parameters", chosen_parameters(estimator)),
        *about,
        *recipe_lines(estimator.recipe),
    ]


def _data(
    path: Path,
    clusters: int,
    terms: int,
    verify: bool,
    reading: Reading,
    running: Running,
    show: Callable[..., None],
) -> tuple[dict[str, Any], list[Any]]:
    from sparsecluster.prepare.profile import profile
    from sparsecluster.storage.store import is_store, open_store

    store = is_store(path)
    if verify:
        if not store:
            raise ValueError("--verify is for stores and models: other files have no checksums.")
        open_store(path, verify=True)
    found, counts, recipe = profile(
        path, n_threads=running.threads, progress=show, **reading.given()
    )
    summary = {
        "kind": "store" if store else "file",
        "format": recipe.format,
        **found.summary(counts, clusters),
        "recipe": recipe.described(),
        "frequent": _frequent(counts, recipe.column_names, terms),
    }
    verified = [f"{path}: all checksums are right"] if verify else []
    return summary, [_grid(_data_rows(path, summary, recipe)), *verified]


def _data_rows(path: Path, summary: dict[str, Any], recipe: Recipe) -> list[tuple[str, str]]:
    from sparsecluster.report.sections import recipe_lines

    lengths, memory, values = summary["row_lengths"], summary["memory"], summary["values"]
    return [
        (summary["kind"], f"{shown(path)} ({summary['format']})"),
        ("rows", f"{summary['rows']:,} ({summary['empty_rows']:,} empty)"),
        ("columns", f"{summary['columns']:,} ({summary['empty_columns']:,} empty)"),
        ("entries", f"{summary['entries']:,}, density {summary['density']:.3g}"),
        (
            "entries per row",
            ", ".join(f"{name} {length:,.0f}" for name, length in lengths.items()),
        ),
        (
            "values",
            "none"
            if values is None
            else f"{summary['dtype']}, {values[0]:.6g} to {values[1]:.6g}"
            + (", rows of length one" if summary["unit_rows"] else ""),
        ),
        ("frequent", ", ".join(f"{name} ({n:,})" for name, n in summary["frequent"])),
        *((name, in_options(value)) for name, value in recipe_lines(recipe)),
        (
            "memory",
            f"{memory['data'] / 1e6:,.1f} MB for the data (a store leaves them on disk); for "
            f"{counted(memory['clusters'], 'cluster')} up to {memory['fit'] / 1e6:,.1f} MB more, "
            f"and {memory['seeding'] / 1e6:,.1f} MB while seeding where there is room",
        ),
    ]


def _frequent(counts: np.ndarray, names: np.ndarray | None, terms: int) -> list[tuple[str, int]]:
    import numpy as np

    order = np.argsort(-counts, kind="stable")[:terms]
    return [
        (f"column {column}" if names is None else str(names[column]), int(counts[column]))
        for column in order
    ]


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float | str | dict):
        return value
    return str(value)


def _grid(rows: list[tuple[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    for name, value in rows:
        grid.add_row(name, Text(value))
    return grid
