"""What all estimators of k-means share: predict, transform, score, top terms; no fit."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans import seeding
from sparsecluster.kmeans.assignment import make_assigner
from sparsecluster.kmeans.lookup import CentersByFeature
from sparsecluster.kmeans.loop import exact_cost
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.checks import INPUT, check_feature_names, check_number, check_weights
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows, as_rows, check_input, unit_rows
from sparsecluster.run.history import Callback, IterationRecord, describe

ZERO_ROWS = ("error", "first")
SET_BY_CHECKS = ("n_features_in_", "feature_names_in_")


class CenterEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC
):
    """A clustering by its centers: every row belongs to the nearest one."""

    # What a subclass has: the parameters of its fit, among them these,
    n_clusters: int
    init: Any
    init_options: dict[str, Any] | None
    n_init: int
    max_iter: int
    tol: float
    n_threads: int | None
    memory_limit: int | str | None
    verbose: int
    callback: Callback | None
    zero_rows: str
    # and what its fit finds.
    cluster_centers_: Any
    labels_: np.ndarray
    feature_names_: np.ndarray | None
    recipe_: dict[str, Any]

    # Of a large model that was loaded: its centers once more, by feature.
    _by_feature: CentersByFeature | None = None
    _recipe: tuple[Any, Any] | None = None

    @property
    def _metric(self) -> str:
        return "euclidean"

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
        self._check_is_fitted()
        rows = self._check_rows(X, n_threads=effective_n_threads(self.n_threads), reset=False)
        labels = self._looked_up(rows)
        if labels is None:
            labels = self._assign(rows, *self._centers_for(rows))
        return labels

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, "cluster_centers_")

    def _looked_up(self, rows: Rows) -> np.ndarray | None:
        """Labels of a few rows by the lists of a model file; None where there are none of use."""
        lists = self._by_feature
        if lists is None or lists.of is not self.cluster_centers_:
            return None
        if lists.of.data.flags.writeable:
            return None  # the centers may have been changed
        if self._metric == "cosine" and not rows.core.norm2.all():
            return None
        return lists.nearest(rows)

    def transform(self, X: Any) -> np.ndarray:
        """Distances of each row to all centers (cosines: 1 - cos), in the float type of X."""
        rows, centers, n_threads = self._prepare(X)
        distances = np.empty((rows.n_rows, centers.n_clusters), dtype=rows.matrix.dtype)
        _core.all_distances(rows.core, centers, distances, n_threads)
        if self._metric == "cosine":
            np.square(distances, out=distances)
            distances /= 2
            distances[rows.core.norm2 == 0] = 1.0
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances of the rows to their nearest centers."""
        rows, centers, n_threads = self._prepare(X)
        weights = check_weights(sample_weight, rows)
        labels = self._assign(rows, centers, n_threads)
        return -exact_cost(rows, centers, labels, weights, n_threads)

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
        self._check_is_fitted()
        check_number("n_terms", n_terms, Integral, 1)
        centers = sp.csr_array(self.cluster_centers_)
        names: Any = check_feature_names(feature_names, centers.shape[1])
        if names is None:
            names = self.feature_names_
        if names is None:
            names = getattr(self, "feature_names_in_", [])
        terms = []
        for begin, end in zip(centers.indptr[:-1], centers.indptr[1:], strict=True):
            order = np.argsort(-centers.data[begin:end], kind="stable")[:n_terms]
            columns = centers.indices[begin:end][order[centers.data[begin:end][order] > 0]]
            terms.append([str(names[c]) if c < len(names) else f"x{c}" for c in columns])
        return terms

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Save the fitted estimator to a file that :func:`~sparsecluster.load_model` reads.

        It is a safetensors file: arrays and JSON, no code. `predict` gives the same labels after
        loading, and `partial_fit` of MiniBatchKMeans goes on where it was. The file appears whole
        or not at all; an existing one is replaced.

        Parameters
        ----------
        path : str or path
            The file, by custom ``*.safetensors``.
        labels : bool, default=True
            Whether `labels_` are saved too.

        Notes
        -----
        A file cannot hold functions (`callback`, `init`) and a `random_state` that is a
        RandomState: these parameters are left out and have their defaults after loading. An
        attribute `recipe_`, a dict of what JSON can say and of arrays, is saved if it is there.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from sparsecluster import KMeans, load_model
        >>> km = KMeans(n_clusters=2, random_state=0).fit(np.array([[1.0], [2.0], [9.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     km.save(path)
        ...     load_model(path).inertia_ == km.inertia_
        True
        """
        from sparsecluster.storage.model import save_model

        save_model(self, path, labels=labels)

    def _prepare(self, X: Any) -> tuple[Rows, _core.Centers, int]:
        self._check_is_fitted()
        rows = self._check_rows(X, n_threads=effective_n_threads(self.n_threads), reset=False)
        return rows, *self._centers_for(rows)

    def _centers_for(self, rows: Rows) -> tuple[_core.Centers, int]:
        """The centers in the core, and the threads that the rows are worth."""
        centers = centers_.to_core(self.cluster_centers_, rows.n_features)
        n_threads = effective_n_threads(self.n_threads)
        return centers, threads_for(rows.core.nnz * centers.n_clusters, n_threads)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if not reset and self._needs_no_conversion(X):
            return X
        return validate_data(self, X, reset=reset, **INPUT)

    def _needs_no_conversion(self, X: Any) -> bool:
        """Whether scikit-learn's checks, which take longer than a small batch, would pass X on."""
        return (
            sp.issparse(X)
            and X.format == "csr"
            and X.dtype in (np.float32, np.float64)
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def _assign(self, rows: Rows, centers: _core.Centers, n_threads: int) -> np.ndarray:
        labels = np.full(rows.n_rows, -1, dtype=np.int32)
        setting = Setting(
            n_threads=n_threads,
            memory_limit=effective_memory_limit(self.memory_limit),
            metric=self._metric,
        )
        assigner = make_assigner("lloyd", rows, setting)
        assigner.assign(centers, np.zeros(0), labels)
        return labels

    def _check_rows(self, X: Any, *, n_threads: int, reset: bool) -> Rows:
        if isinstance(X, str | os.PathLike):
            from sparsecluster.prepare.read import read

            X = read(X, like=None if reset else self)
        X = check_input(X)
        before = {name: self.__dict__[name] for name in SET_BY_CHECKS if name in self.__dict__}
        try:
            if isinstance(X, Rows):
                rows = X
                _ = rows.core  # looks at rows that were not looked at yet
                self._validated_columns(rows, reset=reset)
            else:
                rows = as_rows(self._validated(X, reset=reset), n_threads=n_threads)
        except ValueError:
            # What was refused must not change what the estimator knows of its columns.
            for name in SET_BY_CHECKS:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        if self._metric == "euclidean":
            return rows
        return unit_rows(
            rows,
            n_threads=n_threads,
            allow_zero=self.zero_rows == "first",
            advice="Drop these rows, or pass zero_rows='first' to put them into the first cluster.",
            memory_limit=effective_memory_limit(self.memory_limit),
        )

    def _validated_columns(self, rows: Rows, *, reset: bool) -> None:
        """What scikit-learn's checks do about columns, for rows that need no other check."""
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = rows.n_features
            return
        advice = "Files become alike if the model gets their paths, or by read(path, like=model)."
        if rows.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {rows.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input. {advice}"
            )
        recipe = self.recipe
        if recipe is None or rows.recipe is None:
            return
        if not recipe.same_values(rows.recipe):
            raise ValueError(f"X was prepared in another way than the rows of the fit. {advice}")
        names, known = rows.feature_names, recipe.names
        if names is None or known is None or names is known:
            return
        if not np.array_equal(names, known):
            raise ValueError(f"The columns of X have other names than those known. {advice}")

    def _remember(self, rows: Rows, feature_names: np.ndarray | None) -> None:
        """Keep what the rows of a fit know about their columns."""
        self.feature_names_ = rows.feature_names if feature_names is None else feature_names
        for name in ("recipe_", "_recipe"):
            self.__dict__.pop(name, None)
        if rows.recipe is not None:
            # The names are kept once, unless others are to be shown.
            names = None if feature_names is None else rows.recipe.names
            self.recipe_ = rows.recipe.get_state() | {"names": names}

    @property
    def recipe(self) -> Any:
        """How the file that was fitted became rows; None where it was a matrix."""
        if "recipe_" not in self.__dict__:
            return None
        if self._recipe is None or self._recipe[0] is not self.recipe_:
            from sparsecluster.prepare.recipe import Recipe

            state = self.recipe_
            if state["names"] is None:
                state = state | {"names": self.feature_names_}
            self._recipe = (self.recipe_, Recipe.from_state(state))
        return self._recipe[1]

    def _reporter(self) -> Callback:
        show: Callable[[str], None] | None = None
        if self.verbose:
            from rich.console import Console

            show = partial(Console(stderr=True).print, highlight=False, soft_wrap=True)

        def report(record: IterationRecord) -> Any:
            if show:
                # A terminal that went away must not end the fit.
                with contextlib.suppress(OSError, ValueError):
                    show(describe(record))
            return self.callback(record) if self.callback else None

        return report

    def _check_parameters(self) -> None:
        check_number("n_clusters", self.n_clusters, Integral, 1)
        check_number("n_init", self.n_init, Integral, 1)
        check_number("max_iter", self.max_iter, Integral, 1)
        check_number("tol", self.tol, Real, 0)
        if self.init_options is not None and not isinstance(self.init_options, dict):
            raise ValueError(f"init_options must be a dict or None, got {self.init_options!r}.")
        if isinstance(self.init, str):
            seeding.check_method(self.init, self._metric, self.init_options)
        elif self.init_options:
            raise ValueError("init_options are of no use unless init is a name.")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable or None, got {self.callback!r}.")
        check_number("verbose", self.verbose, (bool, Integral), 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
