"""The page of clusters by density: noise, sizes, and how far rows are from their neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.report.labelled import cluster_values, head, label_terms, sizes_of
from sparsecluster.report.plots import line_plot
from sparsecluster.report.sections import uneven_lines

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def values(
    estimator: Any, distances: np.ndarray | None, terms: int, title: str, version: str
) -> dict[str, Any]:
    """What the template shows; `distances` are those of rows to their k-th neighbors."""
    labels, n_clusters = estimator.labels_, estimator.n_clusters_
    sizes = sizes_of(labels, n_clusters)
    core = getattr(estimator, "core_labels_", None)
    by_core = None if core is None else {"core rows": sizes_of(core, n_clusters)}
    about = []
    if distances is not None:
        same = "as many as were fitted" if len(distances) == len(labels) else "other than the fit's"
        about.append(("data", f"{len(distances):,} rows, {same}"))
    noise = f"{estimator.n_noise_:,} ({estimator.n_noise_ / len(labels):.1%})"
    return {
        "title": title,
        "tiles": [
            ("rows", f"{len(labels):,}"),
            ("columns", f"{estimator.n_features_in_:,}"),
            ("clusters", f"{n_clusters:,}"),
            ("noise", noise),
            *([] if core is None else [("core rows", f"{len(core):,}")]),
        ],
        "making": [*head(estimator, version, ("distance", estimator.metric_)), *about],
        "uneven": [("noise", noise), *(uneven_lines(sizes, "all clustered") if n_clusters else [])],
        "near": None if distances is None else _near(estimator, distances),
        "edges": _edges(estimator),
        **cluster_values(labels, sizes, by_core, _terms(estimator, core, terms)),
    }


def _terms(estimator: Any, core: np.ndarray | None, most: int) -> list[list[str]] | None:
    """What the core rows of each cluster have most of, where columns have names."""
    names = estimator.feature_names_
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if core is None or names is None or estimator.metric_ == "precomputed":
        return None
    return label_terms(estimator.components_, core, estimator.n_clusters_, names, most)


def _near(estimator: Any, distances: np.ndarray) -> dict[str, Any]:
    """The curve of k-distances, with the radius of the fit and the one at its knee."""
    from sparsecluster import suggest_eps

    k, knee = estimator.neighbor_rank, suggest_eps(distances)
    name = f"distance of each row to its neighbor {k}"
    marks, note = [("knee", knee)], "The knee is a radius to try first for DBSCAN."
    if hasattr(estimator, "eps_"):
        marks.append(("eps", estimator.eps_))
        note = "Rows up to eps are core. " + note
    return {
        "name": name,
        "note": note,
        "picture": line_plot(
            range(1, len(distances) + 1),
            np.sort(distances).tolist(),
            title=name,
            below="rows, nearest first",
            marks=marks,
        ),
        "facts": [
            *_shares(distances, "rows"),
            ("knee", f"{knee:.4g}"),
        ],
    }


def _edges(estimator: Any) -> dict[str, Any] | None:
    """The lengths of the edges of a spanning tree, where the model has one."""
    tree = getattr(estimator, "spanning_tree_", None)
    if tree is None or not len(tree.weights):
        return None
    return {
        "picture": line_plot(
            range(1, len(tree.weights) + 1),
            tree.weights.tolist(),
            title="lengths of the edges of the spanning tree",
            below="edges, shortest first",
        ),
        "facts": _shares(tree.weights, "edges"),
    }


def _shares(lengths: np.ndarray, of: str) -> list[tuple[str, str]]:
    """Quantiles, in words."""
    quantiles = np.quantile(lengths, SHARES).tolist()
    return [
        (f"{share:.0%} of {of}", f"up to {length:.4g}")
        for share, length in zip(SHARES, quantiles, strict=True)
    ]
