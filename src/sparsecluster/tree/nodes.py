"""Tree: which node is below which, and what follows from that: paths, leaves, matrices, text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.hierarchy.newick import TreeNode, write_tree


class Tree:
    """Nodes level by level, the root first, so that the children of a node follow each other.

    Leaves are numbered from left to right: those below a node are a range.

    Attributes
    ----------
    parents : ndarray of int32
        Of each node; -1 for the root. Never decreasing.
    sizes : ndarray of int64
        Rows of each node.
    levels : ndarray of int32
        Of each node; 0 for the root.
    first_children, n_children : ndarray of int32
        Of each node; a leaf has no children.
    leaves : ndarray of int32
        The node of each leaf.
    first_leaves, n_leaves_below : ndarray of int32
        The range of leaves below each node; of a leaf itself.
    """

    def __init__(self, parents: np.ndarray, sizes: np.ndarray) -> None:
        self.parents = np.asarray(parents, dtype=np.int32)
        self.sizes = np.asarray(sizes, dtype=np.int64)
        ends = np.searchsorted(self.parents, np.arange(len(self.parents) + 1)).astype(np.int32)
        self.n_children = ends[1:] - ends[:-1]
        self.first_children = ends[:-1] * (self.n_children > 0)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tree)
            and np.array_equal(self.parents, other.parents)
            and np.array_equal(self.sizes, other.sizes)
        )

    def __hash__(self) -> int:
        return hash((self.parents.tobytes(), self.sizes.tobytes()))

    def __repr__(self) -> str:
        return f"<Tree: {self.n_nodes:,} nodes, {self.n_leaves:,} leaves, depth {self.depth}>"

    @classmethod
    def restored(cls, parents: np.ndarray, sizes: np.ndarray) -> Tree:
        """A tree of a file; refused where it is none."""
        nodes = np.arange(len(parents))
        fine = (
            0 < len(parents) == len(sizes)
            and parents[0] == -1
            and np.all(parents[1:] >= 0)
            and np.all(parents < np.maximum(nodes, 1))
            and np.all(parents[1:] >= parents[:-1])
            and np.all(sizes >= 0)
        )
        tree = cls(parents, sizes) if fine else None
        if tree is None or np.any(tree.sums_of_leaves(sizes[tree.leaves]) != sizes):
            raise ValueError("has nodes that are no tree")
        return tree

    @property
    def n_nodes(self) -> int:
        return len(self.parents)

    @property
    def n_leaves(self) -> int:
        return len(self.leaves)

    @property
    def depth(self) -> int:
        """Of the deepest leaf."""
        return int(self.levels.max())

    def _of_levels(self) -> list[slice]:
        """The nodes of each level."""
        found, end = [slice(0, 1)], 1
        while end < self.n_nodes:
            begin, end = end, int(np.searchsorted(self.parents, end))
            found.append(slice(begin, end))
        return found

    @cached_property
    def levels(self) -> np.ndarray:
        levels = np.zeros(self.n_nodes, dtype=np.int32)
        for level, nodes in enumerate(self._of_levels()):
            levels[nodes] = level
        return levels

    @cached_property
    def n_leaves_below(self) -> np.ndarray:
        below = (self.n_children == 0).astype(np.int32)
        for nodes in self._of_levels()[:0:-1]:
            np.add.at(below, self.parents[nodes], below[nodes])
        return below

    @cached_property
    def first_leaves(self) -> np.ndarray:
        first, below = np.zeros(self.n_nodes, dtype=np.int32), self.n_leaves_below
        for nodes in self._of_levels()[1:]:
            parents, before = self.parents[nodes], np.cumsum(below[nodes]) - below[nodes]
            eldest = self.first_children[parents] - nodes.start
            first[nodes] = first[parents] + before - before[eldest]
        return first

    @cached_property
    def leaves(self) -> np.ndarray:
        nodes = np.flatnonzero(self.n_children == 0)
        if nodes[0] >= self._of_levels()[-1].start:  # all on the last level, as they stand
            return nodes.astype(np.int32)
        return nodes[np.argsort(self.first_leaves[nodes])].astype(np.int32)

    def children(self, node: int | np.integer[Any]) -> np.ndarray:
        """The nodes below a node."""
        first = int(self.first_children[node])
        return np.arange(first, first + int(self.n_children[node]))

    def sums_of_leaves(self, of_leaves: np.ndarray) -> np.ndarray:
        """For each node the sum over its leaves."""
        ends = np.concatenate([[0], np.cumsum(of_leaves)])
        return ends[self.first_leaves + self.n_leaves_below] - ends[self.first_leaves]

    # --- rows ---------------------------------------------------------------------------------

    def leaf_paths(self) -> np.ndarray:
        """For each leaf the nodes from below the root down to it; then -1."""
        paths = np.full((self.n_leaves, max(self.depth, 1)), -1, dtype=np.int32)
        node, rows = self.leaves.copy(), np.arange(self.n_leaves)
        while np.any(inside := self.levels[node] > 0):
            paths[rows[inside], self.levels[node[inside]] - 1] = node[inside]
            node[inside] = self.parents[node[inside]]
        return paths

    def chain(self, labels: np.ndarray) -> list[sp.csc_matrix]:
        """Indicator matrices of the clusters of one level in those of the level above.

        A leaf that is not on the last level has itself as its only child further down.
        """
        paths = self.leaf_paths()
        levels = [np.zeros(self.n_leaves, dtype=np.int64)]
        for level in range(self.depth):
            at = paths[:, level]
            # Leaves that ended above stay what they are, in their place from left to right.
            begins = (at < 0) | np.r_[True, at[1:] != at[:-1]]
            levels.append(np.cumsum(begins) - 1)
        chain = []
        for above, below in pairwise(levels):
            first = np.flatnonzero(np.r_[True, below[1:] != below[:-1]])
            chain.append(_indicators(above[first], int(above[-1]) + 1))
        if labels is not None:
            chain.append(_indicators(levels[-1][labels], self.n_leaves))
        return chain

    # --- text ---------------------------------------------------------------------------------

    def nested(self, names: Sequence[str]) -> TreeNode:
        """The tree as nodes with children; each branch has the length of a level, those above
        shallow leaves more, so that all leaves are equally far from the root."""
        nodes = [TreeNode(length=1.0) for _ in range(self.n_nodes)]
        nodes[0].length = 0.0
        for leaf, node in enumerate(self.leaves):
            nodes[node].name = str(names[leaf])
            nodes[node].length += float(self.depth - self.levels[node]) if node else 0.0
        for node in range(1, self.n_nodes):
            nodes[self.parents[node]].children.append(nodes[node])
        return nodes[0]

    def newick(self, names: Sequence[str]) -> str:
        """The tree as Newick text."""
        return write_tree(self.nested(names))

    def linkage(self) -> np.ndarray:
        """A linkage matrix of the leaves; a node of several children is several merges of one
        height, which is its number of levels above the lowest leaves."""
        return self.nested(list(map(str, range(self.n_leaves)))).linkage()

    def documents(self, about: Any) -> dict[str, Any]:
        """The tree as dicts that JSON can hold: `about(node)` and the children of each."""
        made = [dict(about(node)) for node in range(self.n_nodes)]
        for node in range(1, self.n_nodes):
            made[self.parents[node]].setdefault("children", []).append(made[node])
        return made[0]


def _indicators(columns: np.ndarray, n_columns: int) -> sp.csc_matrix:
    """A row per entry of `columns`, with a one in that column."""
    entries = (np.ones(len(columns), np.float32), (np.arange(len(columns)), columns))
    return sp.csc_matrix(entries, shape=(len(columns), n_columns))


def breadth_first(parents: Sequence[int]) -> np.ndarray:
    """The nodes of a tree in order of levels, those of one parent together."""
    below: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(node)
    order = [0]
    for node in order:
        order.extend(below[node])
    return np.array(order, dtype=np.int64)
