"""Estimators that learn from one batch after the other: `partial_fit`, and what it keeps."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array, check_random_state

from sparsecluster import _core
from sparsecluster.base import SparseEstimator
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.projection import METHODS as PROJECTIONS
from sparsecluster.kmeans.seeding.shared import nearest_of
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting, part_of
from sparsecluster.kmeans.stream import (
    SeedBuffer,
    Stream,
    StreamSetting,
    check_sums,
    distinct_rows,
)
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.checks import INPUT, check_weights
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.parameters import Choice, Flag, Number, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows

# The parameters that a stream cannot change.
FROZEN = ("n_clusters", "metric", "center_l1", "projection", "projection_epsilon", "center_nnz")


class StreamEstimator(CenterEstimator):
    """Centers that learn from batches of rows, and keep learning."""

    _parameters = CenterEstimator._parameters | {
        "init_size": integer(1).optional,
        "reassignment_ratio": Number(0, 1),
        "center_l1": Number(0).optional,
        "projection": Choice(PROJECTIONS),
        "projection_epsilon": Number(0, 1),
        "center_nnz": integer(1).optional,
        "grow_features": Flag(),
    }
    _random_starts = 3

    init_size: int | None
    reassignment_ratio: float
    center_l1: float | None
    projection: str
    projection_epsilon: float
    center_nnz: int | None
    grow_features: bool
    random_state: Any
    inertia_: float

    _stream: Stream | None = None
    _waiting: SeedBuffer | None = None
    _sparse: bool = True

    def check_parameters(self) -> None:
        super().check_parameters()
        least = metric_of(self.metric).least_l1
        if self.center_l1 is not None and not (
            least <= self.center_l1 < np.inf and self.center_l1 > 0
        ):
            raise ValueError(
                f"center_l1 must be positive and finite, and for the cosine at least 1 (the "
                f"least L1 norm of a center of unit length), got {self.center_l1!r}."
            )

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StreamEstimator:
        """Learn from one more batch of rows.

        The first rows are kept until there are enough to start from (see `init_size`); a warning
        says how many are missing. A batch that is refused changes nothing. Other threads and signal
        handlers may look at the estimator meanwhile, or save it: they see it as before the batch.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features)
            The batch; its size is what comes.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative.
        """
        self.check_parameters()
        fresh = self._stream is None and self._waiting is None
        rows = self._points(X, reset=fresh)
        weights = check_weights(sample_weight, rows)
        check_sums(rows.core.max_norm, weights)
        given, stream = rows, self._stream
        if stream is None:
            started = self._wait(rows, weights)
            if started is None:
                self._began(given, fresh)
                return self
            stream, rows, weights = started
        elif (began := stream.setting.made_with) != self._frozen:
            changed = [name for name, value in self._frozen.items() if began[name] != value]
            raise ValueError(
                f"{', '.join(changed)} changed after the first batch: a stream cannot follow that. "
                f"Start again with a clone of the estimator."
            )
        stream.widen(rows.n_features)
        learned = stream.learn(rows, weights, self._threads_for(rows))
        self._began(given, fresh)
        self._stream, self._waiting = stream, None
        self.n_features_in_ = rows.n_features
        self.labels_ = learned.labels
        self.inertia_ = learned.cost
        self.n_iter_ = self._stream.n_batches
        return self

    def _began(self, rows: Rows, fresh: bool) -> None:
        if fresh:
            self._sparse = rows.sparse
            self._remember(rows, None)

    def _wait(
        self, rows: Rows, weights: np.ndarray | None
    ) -> tuple[Stream, Rows, np.ndarray | None] | None:
        """Keep rows until there are enough to start a stream from; then give back both."""
        n_threads = effective_n_threads(self.n_threads)
        waiting = self._waiting or SeedBuffer(check_random_state(self.random_state))
        rows, weights = waiting.joined_by(rows, weights, n_threads)
        seeded = isinstance(self.init, str) or callable(self.init)
        missing = max(self.init_size or 0, self.n_clusters) - rows.n_rows if seeded else 0
        if missing <= 0:
            setting = self._setting(rows, weights, waiting.random_state)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                centers = self._best_start(rows, setting)
            if centers.n_clusters < self.n_clusters:
                useful = np.flatnonzero(self._useful(rows, setting))
                rows, weights = distinct_rows(rows, weights, useful, n_threads)
                missing = self.n_clusters - rows.n_rows
            if missing <= 0:
                stream = Stream(centers, waiting.random_state, self._stream_setting)
                return stream, rows, weights
        waiting.keep(rows, weights)
        self._waiting = waiting
        self.n_features_in_ = rows.n_features
        warnings.warn(
            f"There are no centers yet: {rows.n_rows} rows are kept, and {missing} more (different "
            f"ones) are needed to start. Call partial_fit with more rows.",
            UserWarning,
            stacklevel=3,
        )
        return None

    # --- what fit and partial_fit share -------------------------------------------------------

    def _best_start(self, rows: Rows, setting: SeedSetting) -> _core.Centers:
        tries, starts = self._n_init, []
        for number in range(tries):
            part = replace(setting, progress=part_of(setting.progress, number, tries))
            starts.append(
                starting_centers(self.init, rows, self.n_clusters, part, self.init_options)
            )
        if tries == 1:
            return starts[0]
        costs = []
        for start in starts:
            _, distance2 = nearest_of(rows, centers_.from_core(start), setting)
            costs.append(float(np.average(distance2, weights=setting.weights)))
        return starts[int(np.argmin(costs))]

    def _useful(self, rows: Rows, setting: SeedSetting) -> np.ndarray:
        """Which rows can tell where to start: they have weight and, for cosines, a direction."""
        return self._useful_of(setting.metric.useful(rows.core.norm2), setting)

    @staticmethod
    def _useful_of(filled: np.ndarray, setting: SeedSetting) -> np.ndarray:
        """The same, where it is known which rows have a direction."""
        useful = filled if setting.weights is None else filled & (setting.weights > 0)
        return useful if useful.any() else ~useful

    @property
    def _frozen(self) -> dict[str, Any]:
        """The parameters that a stream cannot change."""
        return {name: getattr(self, name) for name in FROZEN}

    @property
    def _stream_setting(self) -> StreamSetting:
        return StreamSetting(
            metric=metric_of(self.metric),
            limits=(
                np.inf if self.center_l1 is None else float(self.center_l1),
                self.projection,
                float(self.projection_epsilon),
                sys.maxsize if self.center_nnz is None else int(self.center_nnz),
            ),
            memory_limit=effective_memory_limit(self.memory_limit),
            reassignment_ratio=self.reassignment_ratio,
            made_with=self._frozen,
        )

    @property
    def cluster_centers_(self) -> Any:
        """The centers as they are now."""
        if self._stream is None:
            raise AttributeError("There are no cluster_centers_ before fit or partial_fit.")
        return self._stream.centers if self._sparse else self._stream.centers.toarray()

    @property
    def metric_(self) -> str:
        """The metric that the stream began with."""
        return self.metric if self._stream is None else self._stream.setting.metric.name

    @property
    def counts_(self) -> np.ndarray:
        """Weight of the rows that each center has seen."""
        if self._stream is None:
            raise AttributeError("There are no counts_ before fit or partial_fit.")
        return self._stream.counts

    @property
    def n_steps_(self) -> int:
        """Batches seen so far."""
        return 0 if self._stream is None else self._stream.n_batches

    @property
    def n_clusters_(self) -> int:
        """Number of clusters found."""
        return len(self.counts_)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_is_fitted__(self) -> bool:
        return self._stream is not None

    def check_is_fitted(self) -> None:
        if self._waiting is not None:
            raise NotFittedError(
                f"There are no centers yet: {self._waiting.n_rows} rows are kept, which are too "
                f"few different ones for {self.n_clusters} clusters. Call partial_fit with more."
            )
        super().check_is_fitted()

    def _enter(self, X: Any, *, reset: bool) -> Rows:
        if self.grow_features and not reset and isinstance(X, str | os.PathLike | Rows):
            recipe = self.recipe
            if recipe is None or (not recipe.terms and recipe.prepare is None):
                # Columns may be more than before.
                rows = enter(X)
                self._check_names(self._names_of_columns(recipe), rows.feature_names)
                X = rows.matrix
        return super()._enter(X, reset=reset)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if reset or not self.grow_features:
            return super()._validated(X, reset=reset)
        known = getattr(self, "feature_names_in_", None)
        self._check_names(known, getattr(X, "columns", None))
        X = check_array(X, input_name="X", **INPUT)
        missing = self.n_features_in_ - X.shape[1]
        if missing <= 0:
            return X
        if not sp.issparse(X):
            return np.pad(X, ((0, 0), (0, missing)))
        shape = (X.shape[0], self.n_features_in_)
        return type(X)((X.data, X.indices, X.indptr), shape=shape, copy=False)

    def _check_names(self, known: Any, names: Any) -> None:
        """Columns that have names keep their places when others join them."""
        if known is None or names is None:
            return
        shared = min(len(known), len(names))
        if list(known[:shared]) != list(names[:shared]):
            raise ValueError(
                "The columns of X are not those of before, in the same order: new ones must come "
                "behind the known ones."
            )

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What was learned, in arrays and what JSON can hold."""
        if self._stream is not None:
            learned = super().get_state() | {"stream": self._stream.get_state()}
        elif self._waiting is not None:
            learned = SparseEstimator.get_state(self) | {"waiting": self._waiting.get_state()}
        else:
            raise NotFittedError("There is nothing to save before fit or partial_fit.")
        return learned | {"sparse": bool(self._sparse)}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave."""
        self._sparse = bool(state.pop("sparse"))
        if "waiting" in state:
            self._waiting = SeedBuffer.from_state(state.pop("waiting"))
            self.n_features_in_ = int(self._waiting.matrix.shape[1])
        else:
            stream = state.pop("stream")
            # The class that checks its parameters checks those that the stream began with, too.
            began = type(self)(
                **stream["made_with"],
                reassignment_ratio=stream["reassignment_ratio"],
                memory_limit=self.memory_limit,
            )
            began.check_parameters()
            if stream["made_with"].keys() != set(FROZEN):
                raise ValueError("has a stream that does not say how it began")
            setting = began._stream_setting  # noqa: SLF001
            self._stream = Stream.from_state(stream, setting, verify=verify)
            self.n_features_in_ = int(self._stream.centers.shape[1])
        super().set_state(state, verify=verify)
