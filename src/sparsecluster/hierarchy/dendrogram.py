"""Dendrograms: where the lines of a tree go, and a picture of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_LEAVES = 100  # branches that a picture shows unless asked otherwise


@dataclass(frozen=True)
class Branch:
    """What a picture ends in: a leaf, or a cluster whose own merges are not shown."""

    node: int  #: as in the linkage matrix
    size: int  #: leaves
    first: int  #: the leftmost of them


@dataclass(frozen=True)
class Dendrogram:
    """A tree as lines: each merge is a bracket over two branches.

    Attributes
    ----------
    branches : list of Branch
        From left to right; the i-th is at place i.
    brackets : ndarray of float, merges x 5
        Left and right place, the heights where the sides begin, and that of the merge.
    nodes : ndarray of int
        The merge of each bracket, as in the linkage matrix.
    """

    branches: list[Branch]
    brackets: np.ndarray
    nodes: np.ndarray


def dendrogram_of(linkage: np.ndarray, max_leaves: int | None = MOST_LEAVES) -> Dendrogram:
    """The lines of a tree, or of its top where it has more than `max_leaves` leaves."""
    n_leaves = len(linkage) + 1
    shown = n_leaves if max_leaves is None else min(n_leaves, max(int(max_leaves), 2))
    lowest = 2 * n_leaves - shown  # nodes below this are branches
    children = linkage[:, :2].astype(np.int64).tolist()
    heights = np.concatenate([np.zeros(n_leaves), linkage[:, 2]])
    branches: list[Branch] = []
    place = dict[int, float]()
    pending = [(2 * n_leaves - 2, False)]
    brackets, nodes = [], []
    while pending:
        node, both_placed = pending.pop()
        if node < max(lowest, n_leaves):
            place[node] = float(len(branches))
            size = 1 if node < n_leaves else int(linkage[node - n_leaves, 3])
            branches.append(Branch(node, size, _leftmost(node, children, n_leaves)))
        elif not both_placed:
            left, right = children[node - n_leaves]
            pending += [(node, True), (right, False), (left, False)]
        else:
            left, right = children[node - n_leaves]
            place[node] = (place[left] + place[right]) / 2
            brackets.append(
                (place[left], place[right], heights[left], heights[right], heights[node])
            )
            nodes.append(node)
    return Dendrogram(branches, np.array(brackets).reshape(-1, 5), np.array(nodes, dtype=np.int64))


def _leftmost(node: int, children: list[list[int]], n_leaves: int) -> int:
    while node >= n_leaves:
        node = children[node - n_leaves][0]
    return node


def clusters_of_nodes(linkage: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The cluster of each node of the tree; -1 where it holds leaves of several."""
    n_leaves = len(linkage) + 1
    cluster = np.full(2 * n_leaves - 1, -1)
    cluster[:n_leaves] = labels
    for at, (left, right) in enumerate(linkage[:, :2].astype(np.int64)):
        if cluster[left] == cluster[right]:
            cluster[n_leaves + at] = cluster[left]
    return cluster


def draw(
    linkage: np.ndarray,
    labels: np.ndarray,
    *,
    names: Sequence[str] | None,
    max_leaves: int | None,
    ax: Any,
    orientation: str = "top",
) -> Any:
    """Draw a tree with matplotlib, its clusters in colors; returns the axes."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.collections import LineCollection
    except ImportError:
        raise ImportError(
            "A picture needs matplotlib: pip install 'sparsecluster[plot]'."
        ) from None
    tree = dendrogram_of(linkage, max_leaves)
    cluster = clusters_of_nodes(linkage, labels)
    ax = plt.gca() if ax is None else ax
    sideways = orientation == "right"
    lines = []
    for left, right, low, other_low, high in tree.brackets:
        line = np.array([(left, low), (left, high), (right, high), (right, other_low)])
        lines.append(line[:, ::-1] if sideways else line)
    colors = ["0.4" if cluster[node] < 0 else f"C{cluster[node] % 10}" for node in tree.nodes]
    ax.add_collection(LineCollection(lines, colors=colors, linewidths=1.2))
    top = float(linkage[:, 2].max(initial=0.0)) or 1.0
    texts = [_name(branch, names) for branch in tree.branches]
    along, across = (ax.yaxis, ax.xaxis) if sideways else (ax.xaxis, ax.yaxis)
    along.set_ticks(range(len(texts)), texts)
    across.set_label_text("height")
    (ax.set_ylim if sideways else ax.set_xlim)(-0.5, len(texts) - 0.5)
    (ax.set_xlim if sideways else ax.set_ylim)(0, 1.05 * top)
    for text, branch in zip(along.get_ticklabels(), tree.branches, strict=False):
        text.set_rotation(0 if sideways or max(map(len, texts)) <= 2 else 90)
        text.set_color("0.3" if cluster[branch.node] < 0 else f"C{cluster[branch.node] % 10}")
        text.set_fontsize(min(10.0, max(4.0, 400 / len(texts))))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _name(branch: Branch, names: Sequence[str] | None) -> str:
    if branch.size > 1:
        return f"({branch.size:,})"
    return str(branch.first) if names is None else str(names[branch.first])
