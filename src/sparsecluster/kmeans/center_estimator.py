"""Estimators whose clusters are centers: predict, transform, score, top terms; no fit."""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sparsecluster import _core
from sparsecluster.base import SparseEstimator
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import nearest_labels
from sparsecluster.kmeans.cluster_terms import ClusterTerms, largest_terms
from sparsecluster.kmeans.lookup import CentersByFeature
from sparsecluster.kmeans.seeding.starting import check_method
from sparsecluster.kmeans.setting import SeedSetting, Setting
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.metric import METRICS, ZERO_ROWS, Metric, metric_of
from sparsecluster.rows.parameters import Anything, Choice, Number, check_number, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.fields import (
    FLAG,
    HISTORY,
    INTEGER,
    LABELS,
    NUMBER,
    SECONDS,
    TEXT,
    Array,
)

if TYPE_CHECKING:
    from sparsecluster import Report


class CenterEstimator(
    ClusterTerms,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    SparseEstimator,
    ABC,
):
    """A clustering by its centers: every row belongs to the nearest one."""

    _parameters = SparseEstimator._parameters | {
        "n_clusters": integer(1),
        "metric": Choice(METRICS),
        "zero_rows": Choice(ZERO_ROWS),
        "n_init": Choice(["auto"]) | integer(1),
        "max_iter": integer(1),
        "tol": Number(0),
        "init": Anything(),
    }
    _fitted = SparseEstimator._fitted | {
        "labels_": LABELS,
        "cluster_weights_": Array(np.float64),
        "inertia_": NUMBER,
        "metric_": TEXT,
        "objective_": NUMBER,
        "n_iter_": INTEGER,
        "history_": HISTORY,
        "converged_": FLAG,
        "seconds_": SECONDS,
    }

    # What a subclass has: the parameters of its fit, among them these,
    n_clusters: int
    metric: str
    init: Any
    init_options: dict[str, Any] | None
    n_init: int | str
    zero_rows: str
    # and what its fit finds.
    cluster_centers_: Any
    labels_: np.ndarray
    history_: list[IterationRecord]
    n_iter_: int

    _random_starts = 10
    # Of a large model that was loaded: its centers once more, by feature.
    _by_feature: CentersByFeature | None = None

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.init_options is not None and not isinstance(self.init_options, dict):
            raise ValueError(f"init_options must be a dict or None, got {self.init_options!r}.")
        if isinstance(self.init, str):
            check_method(self.init, self.metric, self.init_options)
        elif self.init_options:
            raise ValueError("init_options have no effect unless init is a name.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> CenterEstimator:
        """Cluster the rows of X."""

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> np.ndarray:
        """Cluster the rows of X and return their labels."""
        return self.fit(X, sample_weight=sample_weight, feature_names=feature_names).labels_

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> np.ndarray:
        """Cluster the rows of X and return their distances to the centers."""
        return self.fit(X, sample_weight=sample_weight, feature_names=feature_names).transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """Nearest center of each row; of equally near ones the one of the lowest index.

        Two centers a and b are equally near to a row x where the difference of the squared
        distances, the sum over the columns of (a - b)(a + b - 2 x), is below 1e-12 of the sum of
        the magnitudes of its terms. Columns in which the centers agree do not count, however large
        the row is there.
        """
        self.check_is_fitted()
        rows = self._points(X)
        labels = self._looked_up(rows)
        return self._assign(*self._met(rows)) if labels is None else labels

    def transform(self, X: Any) -> np.ndarray:
        """Distances of each row to all centers (cosines: 1 - cos), in the float type of X."""
        self.check_is_fitted()
        rows, centers, n_threads = self._met(self._points(X))
        distances = np.empty((rows.n_rows, centers.n_clusters), dtype=rows.matrix.dtype)
        _core.all_distances(rows.core, centers, distances, n_threads)
        self._measure().distances(distances, rows.core.norm2)
        return distances

    def nearest_center(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest center of each row, as `predict` gives it, and the squared distance to it.

        For the cosine squared distances are those at unit length, 2 (1 - cos).
        """
        self.check_is_fitted()
        rows, centers, n_threads = self._met(self._points(X))
        labels = self._assign(rows, centers, n_threads)
        return labels, _core.own_distances(rows.core, centers, labels, n_threads)

    def label_distances(self, X: Any, labels: Any) -> np.ndarray:
        """The distance of each row to the center of its label (cosines: 1 - cos), as float64."""
        self.check_is_fitted()
        rows, centers, n_threads = self._met(self._points(X))
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        if labels.shape != (rows.n_rows,) or not _within(labels, centers.n_clusters):
            raise ValueError(
                f"labels must be one integer from 0 to {centers.n_clusters - 1} per row of X."
            )
        distances = np.sqrt(_core.own_distances(rows.core, centers, labels, n_threads))
        self._measure().distances(distances, rows.core.norm2)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances of the rows to their nearest centers."""
        self.check_is_fitted()
        rows, centers, n_threads = self._met(self._points(X))
        weights = check_weights(sample_weight, rows)
        labels = self._assign(rows, centers, n_threads)
        return -_core.own_cost(rows.core, centers, labels, weights, n_threads)

    def top_terms(self, n_terms: int = 10, *, feature_names: Any = None) -> list[list[str]]:
        """The columns with the largest values in each center, largest first.

        Parameters
        ----------
        n_terms : int, default=10
            How many to name for each cluster.
        feature_names : sequence of str, optional
            Names of the columns. By default those given to :meth:`fit`, those of its data frame, or
            x0, x1, ...
        """
        self.check_is_fitted()
        check_number("n_terms", n_terms, Integral, 1)
        centers = sp.csr_array(self.cluster_centers_)
        names = self._column_names(feature_names, centers.shape[1])
        return largest_terms(centers, int(n_terms), names)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        rows: Any = None,
        *,
        terms: int = 10,
        examples: int = 3,
        texts: Iterable[str] | None = None,
        title: str | None = None,
    ) -> Report:
        """A page about the fit, which a notebook shows: sizes, terms and similarity of clusters.

        Parameters
        ----------
        path : str or path, optional
            A file to write the page to.
        rows, terms, examples, texts, title
            As for :func:`~sparsecluster.make_report`.
        """
        self.check_is_fitted()
        # By its public name: this layer does not know how a report is made.
        from sparsecluster import make_report

        made = make_report(self, rows, terms=terms, examples=examples, texts=texts, title=title)
        if path is not None:
            made.save(path)
        return made

    # --- what fit and predict share -----------------------------------------------------------

    def check_is_fitted(self) -> None:
        """Raise NotFittedError where there are no centers yet."""
        check_is_fitted(self, "cluster_centers_")

    def _measure(self, *, reset: bool = False) -> Metric:
        """The metric of a fit that begins, or the one that the centers were fitted by."""
        return metric_of(self.metric if reset else getattr(self, "metric_", self.metric))

    def _points(self, X: Any, *, reset: bool = False) -> Rows:
        """The rows of X as points of the metric; with `reset` those that a fit begins with."""
        return self._enter_points(X, self._measure(reset=reset), self.zero_rows, reset=reset)

    def _rows_to_fit(self, X: Any) -> Rows:
        rows = self._points(X, reset=True)
        self._check_n_rows(rows)
        return rows

    def _check_n_rows(self, rows: Rows) -> None:
        """Refuse fewer rows than clusters; warn of starts that will not be tried."""
        if rows.n_rows < self.n_clusters:
            raise ValueError(f"n_samples={rows.n_rows} should be >= n_clusters={self.n_clusters}.")
        if not isinstance(self.n_init, str) and self._n_init < self.n_init:
            warnings.warn(
                f"Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={self.n_init}.",
                RuntimeWarning,
                stacklevel=4,
            )

    @property
    def _n_init(self) -> int:
        """Runs, or starts, to try; as in scikit-learn "auto" means several for rows at random."""
        if not (isinstance(self.init, str) or callable(self.init)):
            return 1
        if isinstance(self.n_init, str):
            return self._random_starts if self.init == "random" or callable(self.init) else 1
        return int(self.n_init)

    @property
    def n_starts(self) -> int:
        """How many times `fit` starts: `n_init`, or what it means where it is "auto"."""
        return self._n_init

    def _threads_for(self, rows: Rows) -> int:
        """Threads that a pass over the rows is worth."""
        n_threads = effective_n_threads(self.n_threads)
        return threads_for(rows.core.nnz * self.n_clusters, n_threads)

    def _setting(
        self, rows: Rows, weights: np.ndarray | None, random_state: np.random.RandomState
    ) -> SeedSetting:
        return SeedSetting(
            random_state=random_state,
            weights=weights,
            memory_limit=effective_memory_limit(self.memory_limit),
            n_threads=self._threads_for(rows),
            metric=metric_of(self.metric),
        )

    def _set_history(
        self, history: list[IterationRecord], converged: bool, seeding: float, started: float
    ) -> None:
        """Keep how a fit went that began at `started`."""
        self.history_, self.n_iter_, self.converged_ = history, len(history), converged
        assignment = sum(record.assignment_seconds for record in history)
        update = sum(record.update_seconds for record in history)
        other = sum(record.seconds for record in history) - assignment - update
        phases = {"seeding": seeding, "assignment": assignment, "update": update, "other": other}
        # Of a fit that resumed, the phases have the time before, too.
        total = max(time.perf_counter() - started, sum(phases.values()))
        self.seconds_ = {**phases, "total": total}

    def _met(self, rows: Rows) -> tuple[Rows, _core.Centers, int]:
        """Rows and centers in the same columns, and the threads that they are worth."""
        n_threads, centers = effective_n_threads(self.n_threads), self.cluster_centers_
        columns = Columns.occurring(rows, centers)
        if columns is not None:
            rows, centers = columns.rows(rows, n_threads=n_threads), columns.inside(centers)
        core = centers_.to_core(centers, rows.n_features)
        return rows, core, threads_for(rows.core.nnz * core.n_clusters, n_threads)

    def _assign(self, rows: Rows, centers: _core.Centers, n_threads: int) -> np.ndarray:
        memory_limit = effective_memory_limit(self.memory_limit)
        setting = Setting(n_threads=n_threads, memory_limit=memory_limit, metric=self._measure())
        return nearest_labels(rows, centers, setting)

    def _looked_up(self, rows: Rows) -> np.ndarray | None:
        """Labels of a few rows by the lists of a model file; None where there are none of use."""
        lists = self._by_feature
        if lists is None or lists.of is not self.cluster_centers_:
            return None
        changed = lists.of.data.flags.writeable  # or may have been
        useful = self._measure().useful(rows.core.norm2).all()
        return lists.nearest(rows) if useful and not changed else None

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What was fitted; of many sparse centers also lists by feature, for a small predict."""
        self.check_is_fitted()
        by_feature = CentersByFeature.arrays(self.cluster_centers_)
        return super().get_state() | {"by_feature": by_feature}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave, once the centers are there."""
        by_feature = state.pop("by_feature", None)
        if by_feature is not None:
            self._by_feature = CentersByFeature.restored(by_feature, self.cluster_centers_)
        super().set_state(state, verify=verify)


def _within(labels: np.ndarray, n_clusters: int) -> bool:
    return not len(labels) or 0 <= labels.min() <= labels.max() < n_clusters
