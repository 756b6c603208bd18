"""What the estimators by density share: their rows, their search, and how a fit is told."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.neighbors.k_distances import kth_distances
from sparsecluster.neighbors.search import SEARCH_METRICS, Search, make_search
from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.errors import counted
from sparsecluster.rows.parameters import Choice
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import LABELS, SECONDS, TEXT


class DensityEstimator(ClusterMixin, SparseEstimator):
    """Clusters that are dense regions; rows outside of them are noise, labelled -1."""

    _parameters = SparseEstimator._parameters | {"metric": Choice(SEARCH_METRICS)}
    _fitted = SparseEstimator._fitted | {"labels_": LABELS, "metric_": TEXT, "seconds_": SECONDS}

    metric: str
    metric_: str
    labels_: np.ndarray

    @property
    def n_clusters_(self) -> int:
        """Clusters that were found; noise is none."""
        return int(self.labels_.max(initial=-1)) + 1

    @property
    def n_noise_(self) -> int:
        """Rows that are in no cluster."""
        return int(np.count_nonzero(self.labels_ < 0))

    @property
    def neighbor_rank(self) -> int:
        """Which neighbor must be near where a row is to be core, itself not counted."""
        return max(self._n_near() - 1, 1)

    @abstractmethod
    def _n_near(self) -> int:
        """Rows, itself included, that make a row core."""

    def k_distances(self, X: Any, k: int | None = None) -> np.ndarray:
        """The distance of each row to its k-th nearest neighbor, itself not counted.

        Parameters
        ----------
        X : matrix, frame, Rows, store or path
            The rows, like those of the fit.
        k : int, default=None
            Which neighbor; by default the one that decides whether a row is core: number
            ``min_samples - 1``, or the first.

        Returns
        -------
        ndarray of float64
            One distance per row, as of :func:`~sparsecluster.k_distances`.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import DBSCAN
        >>> X = np.array([[0.0], [1.0], [3.0], [9.0]])
        >>> db = DBSCAN(2.5, min_samples=2, metric="euclidean").fit(X)
        >>> db.k_distances(X)
        array([1., 1., 2., 6.])
        """
        check_is_fitted(self, "labels_")
        if self.metric_ not in SEARCH_METRICS:
            raise ValueError(
                f"metric={self.metric_!r} has no rows to search; the distances of X are known."
            )
        search = self._search(self._enter(X, reset=False), metric=self.metric_)
        rank = self.neighbor_rank if k is None else k
        return kth_distances(search, rank)

    def _search(self, queries: Rows, rows: Rows | None = None, *, metric: str) -> Search:
        return make_search(
            queries,
            rows,
            metric=metric,
            n_threads=effective_n_threads(self.n_threads),
            memory_limit=effective_memory_limit(self.memory_limit),
            progress=self.callback,  # type: ignore[arg-type]
        )

    def _take_over(self, rows: Rows, found: dict[str, Any], names: Any, started: float) -> None:
        """Keep what a fit found, now that it has succeeded."""
        names = check_feature_names(names, rows.n_features)
        for name in self._fitted:
            self.__dict__.pop(name, None)
        self.__dict__.update(found)
        self._remember(rows, names)
        self.seconds_ = {"total": time.perf_counter() - started}
        self._show(
            f"{type(self).__name__}: {counted(self.n_clusters_, 'cluster')}, "
            f"{counted(self.n_noise_, 'row')} of noise, {self.seconds_['total']:.2f} s"
        )

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Save the fitted estimator, as :meth:`KMeans.save` does; its labels belong to it."""
        if not labels:
            raise ValueError("labels=False is for models with centers: here the labels are all.")
        super().save(path)

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses labels that no fit leaves."""
        if "labels_" not in state:
            raise ValueError("has no labels")
        labels = state["labels_"]
        super().set_state(state, verify=verify)
        if verify and labels.min(initial=0) < -1:
            raise ValueError("has labels below -1")
