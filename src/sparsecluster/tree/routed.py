"""What estimators share whose clusters are the leaves of a tree: rows go from the root down."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.base import SparseEstimator
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.metric import Metric
from sparsecluster.rows.resources import effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import Array
from sparsecluster.tree.nodes import Tree
from sparsecluster.tree.splitting import Grown


class RoutedTree(SparseEstimator):
    """Has a tree, and a center for each of its nodes."""

    _fitted = SparseEstimator._fitted | {"node_costs_": Array(np.float64)}

    tree_: Tree
    node_centers_: Any
    node_costs_: np.ndarray

    def _set_grown(self, grown: Grown, columns: Columns | None, *, sparse: bool) -> None:
        """Keep a tree that was grown in these columns."""
        centers = grown.centers if columns is None else columns.outside(grown.centers)
        self.node_centers_ = centers if sparse else centers.toarray()
        self.tree_, self.node_costs_ = grown.tree, grown.costs

    def _route(self, rows: Rows, beam: int, metric: Metric) -> np.ndarray:
        """The leaf of each row, following so many nodes of a level."""
        n_threads, centers = effective_n_threads(self.n_threads), self.node_centers_
        columns = Columns.occurring(rows, centers)
        if columns is not None:
            rows, centers = columns.rows(rows, n_threads=n_threads), columns.inside(centers)
        centers, tree = sp.csr_array(centers), self.tree_
        nodes = _core.route(
            rows.core,
            tree.first_children,
            tree.n_children,
            centers.indptr.astype(np.int64),
            centers.indices.astype(np.int32, copy=False),
            np.ascontiguousarray(centers.data),
            not metric.centers_are_means,
            beam,
            threads_for(rows.core.nnz * int(tree.n_children.max()) * beam, n_threads),
        )
        leaf_of = np.full(tree.n_nodes, -1, dtype=np.int32)
        leaf_of[tree.leaves] = np.arange(tree.n_leaves)
        return leaf_of[nodes]

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        tree = {"parents": self.tree_.parents, "sizes": self.tree_.sizes}
        return super().get_state() | {"tree_": tree, "node_centers_": self.node_centers_}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves."""
        arrays = state.pop("tree_")
        kinds = {"parents": np.int32, "sizes": np.int64}
        parents, sizes = (Array(kinds[name]).unpack(name, arrays[name], 0) for name in kinds)
        self.tree_ = Tree.restored(parents, sizes)
        centers = centers_.check_stored(state.pop("node_centers_"), verify=verify)
        if centers.shape[0] != self.tree_.n_nodes:
            raise ValueError("has not as many centers as nodes")
        self.node_centers_ = centers
        self.n_features_in_ = int(centers.shape[1])
        self._restore_tree()
        super().set_state(state, verify=verify)

    def _restore_tree(self) -> None:
        """Set what follows from the tree and its centers."""
