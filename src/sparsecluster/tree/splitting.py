"""Nodes split by the core, all of one call side by side; trees of bounded leaves made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from sparsecluster import _core
from sparsecluster.rows.rows import MAX_INDEX, Rows, mapped_csr
from sparsecluster.tree.nodes import Tree
from sparsecluster.tree.plan import SizePlan


@dataclass(frozen=True)
class NodeSplit:
    """What became of one node."""

    labels: np.ndarray  #: the child of each of its rows
    costs: np.ndarray  #: per child
    centers: sp.csr_array  #: per child
    n_iter: int

    @property
    def n_children(self) -> int:
        return len(self.costs)

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.labels, minlength=self.n_children)


@dataclass(frozen=True)
class Grown:
    """A tree with the centers and costs of its nodes and the leaf of each row."""

    tree: Tree
    centers: sp.csr_array
    costs: np.ndarray
    labels: np.ndarray
    n_iter: int  #: of the split that took most


@dataclass(frozen=True, kw_only=True)
class Splitter:
    """K-means of the rows of nodes: what is the same for all of them."""

    rows: Rows
    weights: np.ndarray | None
    unit: bool  #: whether rows are compared by their directions
    init: str
    n_init: int
    max_iter: int
    cost_tol: float
    shift_tol: float
    n_threads: int

    def split(self, members: list[np.ndarray], seeds: np.ndarray) -> list[NodeSplit]:
        """Each node in two, or whole where all its rows are the same."""
        ends = np.cumsum([len(rows) for rows in members])
        found = _core.split_nodes(
            self.rows.core,
            np.concatenate(members),
            np.concatenate([[0], ends]),
            seeds,
            self.unit,
            self.init == "k-means++",
            self.n_init,
            self.max_iter,
            self.cost_tol,
            self.shift_tol,
            self.weights,
            self.n_threads,
        )
        labels = np.split(found["labels"], ends[:-1])
        last = np.cumsum(found["n_children"])
        costs = np.split(found["costs"], last[:-1])
        return [
            NodeSplit(
                labels[i],
                costs[i],
                self._centers(found, int(last[i]) - len(costs[i]), int(last[i])),
                int(found["n_iter"][i]),
            )
            for i in range(len(members))
        ]

    def _centers(self, found: dict[str, np.ndarray], first: int, end: int) -> sp.csr_array:
        indptr = found["indptr"][first : end + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        # As they are: there are many nodes, and scipy would check and copy each.
        return mapped_csr(
            indptr - indptr[0], found["columns"][part], found["values"][part], self.rows.n_features
        )

    def grower(self) -> _core.TreeGrower:
        """A tree of the rows, of which the root is known."""
        return _core.TreeGrower(
            self.rows.core,
            self.unit,
            self.init == "k-means++",
            self.n_init,
            self.max_iter,
            self.cost_tol,
            self.weights,
            self.n_threads,
        )

    def root(self) -> tuple[sp.csr_array, float]:
        """The center of all rows, and their cost."""
        grower = self.grower()
        cost = grower.root_cost
        return self.centers_of(grower), cost

    def centers_of(self, grower: _core.TreeGrower) -> sp.csr_array:
        """Those of all nodes, which are taken away from it."""
        indptr, columns, values = grower.take_centers()
        return mapped_csr(indptr, columns, values, self.rows.n_features)

    def exact_cost(self, center: sp.csr_array) -> float:
        """The cost of all rows with one center, where that is the result."""
        core = _core.Centers.from_csr(
            center.indptr.astype(np.int64),
            center.indices.astype(np.int32),
            center.data,
            center.shape[1],
        )
        labels = np.zeros(self.rows.n_rows, dtype=np.int32)
        return float(_core.own_cost(self.rows.core, core, labels, self.weights, self.n_threads))


def root_seed(random_state: Any) -> int:
    """The seed that all others follow from. A number is its own: to start a RandomState takes a
    while."""
    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**32:
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def child_seeds(seeds: np.ndarray, n_children: np.ndarray) -> np.ndarray:
    """Seeds of the children of nodes, which follow from those of their parents (splitmix64)."""
    first = np.repeat(np.cumsum(n_children) - n_children, n_children)
    number = (np.arange(len(first)) - first + 1).astype(np.uint64)
    with np.errstate(over="ignore"):
        z = np.repeat(seeds, n_children) + number * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def grow(splitter: Splitter, plan: SizePlan, seed: int, told: Callable[..., Any]) -> Grown:
    """A tree whose leaves have at most so many rows, level by level.

    `told(level, n_nodes, rows done of the level, rows of the level)` is called now and then.
    """
    n_rows = splitter.rows.n_rows
    grower = splitter.grower()
    n_levels = plan.height(n_rows)
    depth = n_iter = n_nodes = 0
    # Of the nodes of a level, which are ranges of rows that the core keeps in order.
    begin, sizes = np.zeros(1, dtype=np.int64), np.array([n_rows])
    seeds = np.array([seed], dtype=np.uint64)
    parents, costs = [np.array([-1])], [np.zeros(1)]
    all_sizes = [sizes]
    largest = n_rows
    while largest > plan.max_leaf_size:
        inner = np.flatnonzero(sizes > plan.max_leaf_size)
        of_inner = sizes[inner]
        total = int(of_inner.sum())

        def progress(
            done: int, depth: int = depth, n: int = len(inner), total: int = total
        ) -> None:
            told(depth + 1, n, min(done, total), total)

        bounds = plan.children(of_inner, n_levels - depth)
        n_children, of_children, child_costs, iterations = grower.split(
            begin[inner], of_inner, *bounds, seeds[inner], plan.balanced, progress
        )
        largest = int(of_children.max())
        if largest > plan.max_leaf_size:
            ends_before = np.cumsum(of_inner) - of_inner
            begin = np.repeat(begin[inner] - ends_before, n_children)
            begin += np.cumsum(of_children) - of_children
            seeds = child_seeds(seeds[inner], n_children)
        parents.append(np.repeat(n_nodes + inner, n_children))
        n_nodes += len(sizes)
        sizes = of_children
        costs.append(child_costs)
        all_sizes.append(sizes)
        n_iter = max(n_iter, int(iterations.max()))
        depth += 1
        told(depth, len(inner), total, total)
    tree = Tree(np.concatenate(parents), np.concatenate(all_sizes))
    labels = grower.labels(tree.sizes[tree.leaves])
    costs[0][0] = grower.root_cost
    centers = splitter.centers_of(grower)
    if tree.n_nodes == 1:
        costs[0][0] = splitter.exact_cost(centers)
    return Grown(tree, centers, np.concatenate(costs), labels, n_iter)


def stacked(parts: list[sp.csr_array]) -> sp.csr_array:
    """These centers below each other."""
    matrix = sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.float64)
    kind = np.int32 if matrix.nnz <= MAX_INDEX else np.int64
    matrix.indices = matrix.indices.astype(kind, copy=False)
    matrix.indptr = matrix.indptr.astype(kind, copy=False)
    return matrix
