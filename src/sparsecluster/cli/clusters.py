"""The result of a fit: as a table for people, as a summary for machines."""

from __future__ import annotations

from typing import Any

MOST_SHOWN = 50  # clusters in a table
MOST_COMPARED = 300  # clusters up to which each is compared with all others
MOST_PAIRS = 3
NEARLY_EQUAL = 0.8
TOP = "weight"  # terms by their weight in the center


def clusters_table(
    estimator: Any,
    terms: int,
    *more: tuple[str, list[str]],
    most: int = MOST_SHOWN,
    by: str = TOP,
) -> list[Any]:
    """The clusters, largest first: number, size, terms, and more columns by name; then a line where
    there are more of them."""
    from rich.table import Table
    from rich.text import Text

    sizes = cluster_sizes(estimator) or []
    table = Table()
    table.add_column("cluster", justify="right", style="dim")
    table.add_column("rows", justify="right")
    columns = [(name, cells, "cyan") for name, cells in more]
    if estimator.feature_names_ is not None and hasattr(estimator, "top_terms"):
        found = estimator.top_terms(terms) if by == TOP else distinguishing(estimator, terms, by)
        name = "top terms" if by == TOP else f"terms by {by}"
        columns.insert(0, (name, [", ".join(of_cluster) for of_cluster in found], "bold"))
    for name, _, style in columns:
        table.add_column(name, style=style)
    order = sorted(range(len(sizes)), key=lambda one: (-sizes[one], one))
    for cluster in order[:most]:
        cells = [str(cluster), f"{sizes[cluster]:,}", *(cells[cluster] for _, cells, _ in columns)]
        table.add_row(*(Text(cell) for cell in cells))
    if len(order) <= most:
        return [table]
    return [table, f"and {len(order) - most:,} smaller ones (use --json to list all)"]


def cluster_sizes(estimator: Any) -> list[int] | None:
    """Rows of each cluster: of the fit, or of all batches of a stream; None where none is known."""
    import numpy as np

    # The labels of a stream are those of its last batch.
    if not hasattr(estimator, "history_") and hasattr(estimator, "counts_"):
        return [int(n) for n in estimator.counts_]
    if not hasattr(estimator, "labels_"):
        return None
    clustered = estimator.labels_[estimator.labels_ >= 0]  # the rest is noise
    return [int(n) for n in np.bincount(clustered, minlength=estimator.n_clusters_)]


def terms_of_labels(estimator: Any, rows: Any, most: int) -> list[list[str]] | None:
    """What the rows of each cluster have most of, where columns have names: for models without
    centers."""
    from sparsecluster.report.labelled import label_terms

    if rows.feature_names is None:
        return None
    clusters = estimator.labels_, int(estimator.n_clusters_)
    return label_terms(rows.matrix, *clusters, rows.feature_names, most)


def terms_column(top_terms: list[list[str]] | None) -> list[tuple[str, list[str]]]:
    """These terms as a column of the table."""
    return [] if top_terms is None else [("top terms", [", ".join(one) for one in top_terms])]


def phases_of(estimator: Any) -> dict[str, float]:
    """Seconds of each phase of a fit; none for a stream, or for a model of an older version."""
    return dict(getattr(estimator, "seconds_", {}))


def check_terms(rows: Any, by: str) -> None:
    """Refuse, before a fit, rows whose clusters cannot be compared term by term."""
    if by == TOP or rows.feature_names is None:
        return
    values = rows.matrix.data if hasattr(rows.matrix, "indptr") else rows.matrix
    if values.size and values.min() < 0:
        raise ValueError(f"--terms-by {by} needs values that are not negative; the data have some.")


def distinguishing(estimator: Any, terms: int, by: str) -> list[list[str]]:
    """Terms that tell each cluster from the others."""
    found: list[list[str]] = estimator.distinguishing_terms(terms, method=by)
    return found


def similar(estimator: Any) -> list[tuple[int, int, float]]:
    """Pairs of nearly equal clusters; none where there are too many to compare."""
    if estimator.n_clusters_ > MOST_COMPARED or not hasattr(estimator, "similar_clusters"):
        return []
    found: list[tuple[int, int, float]] = estimator.similar_clusters(NEARLY_EQUAL)
    return found


def similar_lines(estimator: Any) -> list[str]:
    """The same in words."""
    pairs = similar(estimator)
    lines = [
        f"clusters {one} and {other} are nearly equal (similarity {similarity:.2f})"
        for one, other, similarity in pairs[:MOST_PAIRS]
    ]
    left = len(pairs) - MOST_PAIRS
    return lines + ([f"and {left:,} more such pairs (use --json to list all)"] if left > 0 else [])


def fit_summary(estimator: Any, terms: int, *, by: str = TOP) -> dict[str, Any]:
    """What a fit found, and how it went, as JSON can hold it."""
    named = estimator.feature_names_ is not None
    history = [_plain_fields(record) for record in getattr(estimator, "history_", [])]
    converged = getattr(estimator, "converged_", None)
    return {
        "estimator": type(estimator).__name__,
        "clusters": int(estimator.n_clusters_),
        "cost": float(estimator.inertia_),
        "converged": None if converged is None else bool(converged),
        "iterations": int(estimator.n_iter_),
        "distances": sum(record["distances"] for record in history),
        "center_distances": sum(record["center_distances"] for record in history),
        "sizes": cluster_sizes(estimator),
        "top_terms": estimator.top_terms(terms) if named else None,
        "distinguishing_terms": None
        if by == TOP or not named
        else distinguishing(estimator, terms, by),
        "similar_clusters": [list(pair) for pair in similar(estimator)],
        "history": history,
    }


def tree_summary(estimator: Any) -> dict[str, Any]:
    """What a hierarchy found, as JSON can hold it."""
    heights = estimator.linkage_[:, 2]
    return {
        "estimator": type(estimator).__name__,
        "linkage": estimator.linkage,
        "metric": estimator.metric,
        "clusters": int(estimator.n_clusters_),
        "cut_above": float(estimator.height_),
        "merges": len(heights),
        "inversions": int(estimator.n_inversions_),
        "last_heights": [float(height) for height in heights[:-21:-1]],
        "sizes": cluster_sizes(estimator),
    }


def cluster_tree_summary(estimator: Any) -> dict[str, Any]:
    """What a tree from the root down holds, as JSON can hold it."""
    tree = estimator.tree_
    return {
        "estimator": type(estimator).__name__,
        "metric": estimator.metric,
        "clusters": tree.n_leaves,
        "nodes": tree.n_nodes,
        "levels": tree.depth,
        "cost": float(estimator.inertia_),
        "sizes": tree.sizes[tree.leaves].tolist(),
    }


def _plain_fields(record: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(record).items()
        if isinstance(value, int | float | str) and not name.startswith("_")
    }
