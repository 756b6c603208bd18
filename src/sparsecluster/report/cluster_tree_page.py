"""The page of a tree from the root down: its nodes, to be opened one by one, and its leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.report.labelled import FIRST_ROWS, head
from sparsecluster.report.sections import uneven_lines
from sparsecluster.rows.errors import counted

MOST_NODES = 5000  # that a page shows, those near the root first
OPEN_LEVELS = 1  # that are open when the page is loaded


def values(estimator: Any, terms: int, title: str, version: str) -> dict[str, Any]:
    """What the template shows."""
    tree = estimator.tree_
    sizes = tree.sizes[tree.leaves]
    children = tree.n_children[tree.n_children > 0]
    return {
        "title": title,
        "tiles": [
            ("rows", f"{tree.sizes[0]:,}"),
            ("columns", f"{estimator.n_features_in_:,}"),
            ("leaves", f"{tree.n_leaves:,}"),
            ("levels", f"{tree.depth:,}"),
            ("cost", f"{estimator.inertia_:,.6g}"),
        ],
        "making": [
            *head(estimator, version, ("distance", estimator.metric_)),
            ("children per node", _span(children)),
        ],
        "uneven": [
            (name, value.replace("cluster", "leaf").replace("leafs", "leaves"))
            for name, value in uneven_lines(sizes)
        ],
        "root": _nested(estimator, terms),
        "left_out": max(tree.n_nodes - MOST_NODES, 0),
        "named": _has_names(estimator),
    }


def _has_names(estimator: Any) -> bool:
    return estimator.feature_names_ is not None or hasattr(estimator, "feature_names_in_")


def _nested(estimator: Any, terms: int) -> dict[str, Any]:
    """The nodes near the root, each with what is shown of it and its children."""
    tree, told = estimator.tree_, estimator.node_terms(terms)
    leaf_of = {int(node): leaf for leaf, node in enumerate(tree.leaves)}
    order = np.argsort(getattr(estimator, "labels_", []), kind="stable")
    ends = np.cumsum(tree.sizes[tree.leaves])
    costs = estimator.node_costs_ / np.maximum(tree.sizes, 1)
    made: list[dict[str, Any]] = []
    for node in range(min(tree.n_nodes, MOST_NODES)):
        leaf = leaf_of.get(node)
        rows: Any = [] if leaf is None else order[ends[leaf] - tree.sizes[node] : ends[leaf]]
        more = ", …" if len(rows) > FIRST_ROWS else ""
        made.append(
            {
                "node": node,
                "leaf": leaf,
                "rows": counted(int(tree.sizes[node]), "row"),
                "leaves": counted(int(tree.n_leaves_below[node]), "leaf", "leaves"),
                "cost": f"{costs[node]:.3g}",
                "terms": told[node],
                "first": ", ".join(map(str, rows[:FIRST_ROWS])) + more if len(rows) else "",
                "open": tree.levels[node] < OPEN_LEVELS,
                "children": [],
            }
        )
        if node:
            made[int(tree.parents[node])]["children"].append(made[node])
    return made[0]


def _span(counts: np.ndarray) -> str:
    """From the lowest to the highest of some numbers."""
    if not len(counts):
        return "none"
    least, most = counts.min(), counts.max()
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"
