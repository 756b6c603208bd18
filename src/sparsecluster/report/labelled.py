"""Clusters known by the labels of their rows alone: how large they are, and what is in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.report.facts import MOST_CLUSTERS, largest_first, top_columns
from sparsecluster.report.plots import size_plot
from sparsecluster.report.sections import chosen_parameters, recipe_lines

FIRST_ROWS = 8


def sizes_of(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Rows of each cluster; those of none are not counted."""
    return np.bincount(labels[labels >= 0], minlength=n_clusters)


def label_terms(
    matrix: Any, labels: np.ndarray, n_clusters: int, names: Any, most: int
) -> list[list[str]]:
    """The columns with the largest means of each cluster, by name."""
    inside = np.flatnonzero(labels >= 0)
    entries = (np.ones(len(inside)), (labels[inside], inside))
    members = sp.csr_array(entries, shape=(n_clusters, len(labels)))
    sums = sp.csr_array(members @ matrix)
    sums.sort_indices()
    return [
        [str(names[column]) for column in top_columns(sums, cluster, most)[0]]
        for cluster in range(n_clusters)
    ]


def head(estimator: Any, version: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """How the model was made."""
    return [
        ("model", f"{type(estimator).__name__}; this page by sparsecluster {version}"),
        *more,
        ("parameters", chosen_parameters(estimator)),
        *recipe_lines(estimator.recipe),
    ]


def cluster_values(
    labels: np.ndarray,
    sizes: np.ndarray,
    more: dict[str, np.ndarray] | None = None,
    terms: list[list[str]] | None = None,
) -> dict[str, Any]:
    """The picture of the sizes and the table of clusters, with more numbers by name."""
    order = largest_first(sizes)
    shown = order[:MOST_CLUSTERS]
    columns = {"rows": sizes, **(more or {})}
    return {
        "sizes": size_plot(order, sizes[order], title="rows of each cluster", linked=shown)
        if order
        else "",
        "clusters": [
            {
                "cluster": one,
                "numbers": [{"name": name, "value": int(of[one])} for name, of in columns.items()],
                "terms": [] if terms is None else terms[one],
                "first": _first_rows(labels, one),
            }
            for one in shown
        ],
        "left_out": len(order) - len(shown),
    }


def _first_rows(labels: np.ndarray, cluster: int) -> str:
    rows = np.flatnonzero(labels == cluster)
    return ", ".join(map(str, rows[:FIRST_ROWS])) + (", …" if len(rows) > FIRST_ROWS else "")
