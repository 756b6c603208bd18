"""Nodes split by the core, all of one call side by side; trees of bounded leaves made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.rows import MAX_INDEX, Rows
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

    def split(
        self,
        members: list[np.ndarray],
        seeds: np.ndarray,
        n_children: Any = 2,
        bounds: tuple[np.ndarray, np.ndarray] | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> list[NodeSplit]:
        """Each node in so many children, or fewer where it has fewer distinct rows; with bounds on
        their sizes always in as many."""
        none = np.zeros(len(members), dtype=np.int64)
        lower, upper = (none, none) if bounds is None else bounds
        found = _core.split_nodes(
            self.rows.core,
            np.concatenate(members),
            np.concatenate([[0], np.cumsum([len(rows) for rows in members])]),
            np.broadcast_to(np.asarray(n_children, dtype=np.int32), len(members)).copy(),
            lower.astype(np.int64),
            upper.astype(np.int64),
            seeds,
            bounds is not None,
            self.unit,
            self.init == "k-means++",
            self.n_init,
            self.max_iter,
            self.cost_tol,
            self.shift_tol,
            self.weights,
            self.n_threads,
            progress,
        )
        ends = np.cumsum([len(rows) for rows in members])
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
        centers: Any = sp.csr_array((end - first, self.rows.n_features), dtype=np.float64)
        # As they are: there are many nodes, and a constructor would check and copy each.
        centers.data, centers.indices = found["values"][part], found["columns"][part]
        centers.indptr = indptr - indptr[0]
        return centers

    def root(self) -> tuple[sp.csr_array, float]:
        """The center of all rows, and their cost."""
        rows, norm2 = self.rows, self.rows.core.norm2
        weights = np.ones(rows.n_rows) if self.weights is None else self.weights
        total = np.asarray(rows.matrix.T @ weights, dtype=np.float64).reshape(1, -1)
        length = np.sqrt((total**2).sum())
        divisor = length if self.unit else weights.sum()
        center = sp.csr_array(total / divisor if divisor > 0 else total)
        squares = float(weights @ norm2)
        if self.unit:
            return center, max(squares + float(weights.sum()) - 2 * length, 0.0)
        return center, max(squares - length**2 / divisor, 0.0)

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


def child_seeds(seed: np.uint64, n_children: int) -> np.ndarray:
    """Seeds of children, which follow from that of their parent (splitmix64)."""
    with np.errstate(over="ignore"):
        z = seed + np.arange(1, n_children + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def split_by_plan(
    splitter: Splitter,
    members: list[np.ndarray],
    seeds: np.ndarray,
    plan: SizePlan,
    levels_below: int,
    progress: Callable[[int], Any] | None,
) -> list[NodeSplit]:
    """Nodes of one level, with sizes that the plan allows."""
    sizes = np.array([len(rows) for rows in members], dtype=np.int64)
    n_children, lower, upper = plan.children(sizes, levels_below)
    if plan.balanced:
        return splitter.split(members, seeds, n_children, (lower, upper), progress)
    # Most nodes keep wide bounds by themselves; then each row is with the nearest center.
    found = splitter.split(members, seeds, n_children, None, progress)
    wrong = [
        i
        for i, split in enumerate(found)
        if split.n_children < 2 or split.sizes.min() < lower[i] or split.sizes.max() > upper[i]
    ]
    if wrong:
        again = splitter.split(
            [members[i] for i in wrong],
            seeds[wrong],
            n_children[wrong],
            (lower[wrong], upper[wrong]),
            progress,
        )
        for i, split in zip(wrong, again, strict=True):
            found[i] = split
    return found


def grow(splitter: Splitter, plan: SizePlan, seed: int, told: Callable[..., Any]) -> Grown:
    """A tree whose leaves have at most so many rows, level by level.

    `told(level, n_nodes, rows done of the level, rows of the level)` is called now and then.
    """
    n_rows = splitter.rows.n_rows
    root_center, root_cost = splitter.root()
    parents, centers, costs = [-1], [root_center], [root_cost]
    sizes = [n_rows]
    level = [(0, np.arange(n_rows, dtype=np.int32), np.uint64(seed))]
    members = {0: level[0][1]}
    n_levels = plan.height(n_rows)
    depth = n_iter = 0
    while to_split := [one for one in level if len(one[1]) > plan.max_leaf_size]:
        total = sum(len(rows) for _, rows, _ in to_split)

        def progress(
            done: int, depth: int = depth, n: int = len(to_split), total: int = total
        ) -> None:
            told(depth + 1, n, min(done, total), total)

        splits = split_by_plan(
            splitter,
            [rows for _, rows, _ in to_split],
            np.array([seed for _, _, seed in to_split], dtype=np.uint64),
            plan,
            n_levels - depth,
            progress,
        )
        level = []
        for (node, rows, node_seed), split in zip(to_split, splits, strict=True):
            del members[node]
            n_iter = max(n_iter, split.n_iter)
            order = np.argsort(split.labels.astype(np.uint16), kind="stable")  # by digits: fast
            parts = np.split(rows[order], np.cumsum(split.sizes)[:-1])
            for part, one in zip(parts, child_seeds(node_seed, len(parts)), strict=True):
                members[len(parents)] = part
                level.append((len(parents), part, one))
                parents.append(node)
                sizes.append(len(part))
            centers.append(split.centers)
            costs.extend(split.costs.tolist())
        depth += 1
        told(depth, len(to_split), total, total)
    if len(parents) == 1:
        costs = [splitter.exact_cost(root_center)]
    tree = Tree(np.array(parents), np.array(sizes))
    labels = np.empty(n_rows, dtype=np.int32)
    for leaf, node in enumerate(tree.leaves):
        labels[members[int(node)]] = leaf
    return Grown(tree, stacked(centers), np.array(costs), labels, n_iter)


def stacked(parts: list[sp.csr_array]) -> sp.csr_array:
    """These centers below each other."""
    matrix = sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.float64)
    kind = np.int32 if matrix.nnz <= MAX_INDEX else np.int64
    matrix.indices = matrix.indices.astype(kind, copy=False)
    matrix.indptr = matrix.indptr.astype(kind, copy=False)
    return matrix
