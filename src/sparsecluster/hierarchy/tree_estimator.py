"""TreeEstimator: what estimators share that merge rows into a tree; no fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.hierarchy import condensed, newick, tree
from sparsecluster.hierarchy import dendrogram as drawing
from sparsecluster.rows.errors import counted
from sparsecluster.rows.parameters import Choice, Number, integer
from sparsecluster.rows.resources import effective_memory_limit
from sparsecluster.storage.fields import INTEGER, LABELS, NUMBER, SECONDS, Array


def check_cut(n_clusters: int | None, height: float | None) -> None:
    """Refuse to cut a tree in two ways."""
    if n_clusters is not None and height is not None:
        raise ValueError("n_clusters cannot be combined with height: each cuts the tree.")


def check_count(n_clusters: int | None, n_leaves: int) -> None:
    """Refuse more clusters than leaves."""
    if n_clusters is not None and n_clusters > n_leaves:
        raise ValueError(f"n_clusters={n_clusters} is more than the tree has leaves ({n_leaves}).")


def cut_tree(linkage: np.ndarray, n_clusters: int | None, height: float | None) -> np.ndarray:
    """The cluster of each leaf, by number, height or widest gap."""
    check_count(n_clusters, len(linkage) + 1)
    if height is not None:
        return tree.labels_by_height(linkage, float(height))
    n_clusters = tree.widest_gap(linkage) if n_clusters is None else int(n_clusters)
    return tree.labels_by_count(linkage, n_clusters)


class TreeEstimator(ClusterMixin, SparseEstimator):
    """A clustering by a tree of merges, and by where that is cut."""

    _fitted = SparseEstimator._fitted | {
        "linkage_": Array(np.float64, 2),
        "labels_": LABELS,
        "leaf_labels_": LABELS,
        "n_clusters_": INTEGER,
        "n_inversions_": INTEGER,
        "height_": NUMBER,
        "seconds_": SECONDS,
    }

    callback: Any  # which gets other records than those of iterations
    # What a fit finds.
    linkage_: np.ndarray
    labels_: np.ndarray
    leaf_labels_: np.ndarray
    n_clusters_: int
    seconds_: dict[str, float]

    def _set_tree(
        self, linkage: np.ndarray, cut: np.ndarray, leaf_labels: np.ndarray | None
    ) -> None:
        """Keep a tree, the cluster of each of its leaves, and the leaf of each row."""
        self.__dict__.pop("leaf_labels_", None)
        if leaf_labels is not None:
            self.leaf_labels_ = leaf_labels
        self.linkage_, self.n_inversions_ = linkage, tree.count_inversions(linkage)
        self.labels_ = cut if leaf_labels is None else cut[leaf_labels]
        self.n_clusters_ = int(cut.max()) + 1
        inside = drawing.clusters_of_nodes(linkage, cut)[len(cut) :] >= 0
        self.height_ = float(linkage[inside, 2].max(initial=0.0))

    # --- the tree -----------------------------------------------------------------------------

    def cut(self, n_clusters: int | None = None, *, height: float | None = None) -> np.ndarray:
        """Labels of the rows where the tree is cut elsewhere; the estimator stays as it is.

        Parameters
        ----------
        n_clusters, height
            As of the estimator; with neither the widest gap.

        Returns
        -------
        labels : ndarray of int32
        """
        check_is_fitted(self)
        integer(1).optional.check("n_clusters", n_clusters)
        Number(0).optional.check("height", height)
        check_cut(n_clusters, height)
        labels = cut_tree(self.linkage_, n_clusters, height)
        return labels if not hasattr(self, "leaf_labels_") else labels[self.leaf_labels_]

    def outliers(self, *, max_size: int = 1, height: float | None = None) -> np.ndarray:
        """Rows that stand alone, or nearly: in clusters of at most `max_size` rows.

        Parameters
        ----------
        max_size : int, default=1
            The largest cluster that counts.
        height : float or None, default=None
            Where to cut the tree for that; by default clusters are those of `labels_`.

        Returns
        -------
        rows : ndarray of int
            Their indices.
        """
        check_is_fitted(self)
        integer(1).check("max_size", max_size)
        labels = self.labels_ if height is None else self.cut(height=height)
        return np.flatnonzero(np.bincount(labels)[labels] <= max_size)

    def cophenetic(self) -> np.ndarray:
        """The height at which each two leaves are first in one cluster, condensed as by `pdist`."""
        from scipy.cluster.hierarchy import cophenet

        check_is_fitted(self)
        n_leaves = len(self.linkage_) + 1
        limit = effective_memory_limit(self.memory_limit)
        condensed.check_memory(n_leaves, limit, "Raise memory_limit.")
        return np.asarray(cophenet(self.linkage_)) if n_leaves > 1 else np.empty(0)

    def leaf_order(self) -> np.ndarray:
        """The leaves from left to right, so that no branches of the tree cross."""
        check_is_fitted(self)
        return tree.leaf_order(self.linkage_)

    def dendrogram(self, max_leaves: int | None = drawing.MOST_LEAVES) -> drawing.Dendrogram:
        """Where the lines of a picture of the tree go; of its top where it has more leaves."""
        check_is_fitted(self)
        return drawing.dendrogram_of(self.linkage_, max_leaves)

    def clusters_of_nodes(self) -> np.ndarray:
        """The cluster of each node of the tree, leaves first; -1 where it holds several."""
        return drawing.clusters_of_nodes(self.linkage_, self._leaf_clusters())

    def _leaf_clusters(self) -> np.ndarray:
        check_is_fitted(self)
        cut = np.zeros(len(self.linkage_) + 1, dtype=np.int64)
        cut[getattr(self, "leaf_labels_", slice(None))] = self.labels_
        return cut

    def newick(self, names: Sequence[str] | None = None) -> str:
        """The tree as Newick text, with these names for the leaves or their numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import AgglomerativeClustering
        >>> model = AgglomerativeClustering(linkage="single").fit(np.array([[0.0], [1], [3]]))
        >>> model.newick(["A", "B", "C"])
        '(C:2.0,(A:1.0,B:1.0):1.0);'
        """
        return newick.write_newick(self.linkage_, self._names(names))

    def plot(
        self,
        *,
        names: Sequence[str] | None = None,
        max_leaves: int | None = drawing.MOST_LEAVES,
        orientation: str = "top",
        ax: Any = None,
    ) -> Any:
        """Draw the dendrogram with matplotlib, the clusters of `labels_` in colors.

        Parameters
        ----------
        names : sequence of str or None, default=None
            Names of the leaves; by default their numbers.
        max_leaves : int or None, default=100
            Branches to show: where there are more leaves, the lower merges are left out, and a
            branch shows how many leaves it has. None shows all.
        orientation : {"top", "right"}, default="top"
            Where the root is.
        ax : matplotlib axes or None, default=None
            Where to draw; by default the current axes.

        Returns
        -------
        ax : matplotlib axes
        """
        names = None if names is None else self._names(names)
        Choice(["top", "right"]).check("orientation", orientation)
        return drawing.draw(
            self.linkage_,
            self._leaf_clusters(),
            names=names,
            max_leaves=max_leaves,
            ax=ax,
            orientation=orientation,
        )

    def _names(self, names: Sequence[str] | None) -> Sequence[str]:
        check_is_fitted(self)
        n_leaves = len(self.linkage_) + 1
        if names is None:
            return [str(leaf) for leaf in range(n_leaves)]
        if len(names) != n_leaves:
            raise ValueError(
                f"There are {len(names)} names for {counted(n_leaves, 'leaf', 'leaves')}."
            )
        return names

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self)
        return super().get_state()

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves."""
        super().set_state(state, verify=verify)
        linkage, n_leaves = self.linkage_, len(self.linkage_) + 1
        nodes = np.arange(n_leaves, 2 * n_leaves - 1)[:, None]
        # NaN is within no bounds.
        inside = linkage.shape[1:] == (4,) and np.all(
            (linkage[:, :2] >= 0) & (linkage[:, :2] < nodes)
        )
        if not inside or len(np.unique(linkage[:, :2])) != 2 * len(linkage):
            raise ValueError("has a linkage_ that is no tree")
