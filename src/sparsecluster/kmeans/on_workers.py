"""Estimators with centers that may compute on the workers of an executor."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.elsewhere import is_elsewhere
from sparsecluster.kmeans.remote import PartSetting, RemoteRows, open_rows
from sparsecluster.rows.parameters import By
from sparsecluster.run.dask import check_executor, told_to_others
from sparsecluster.storage.atomic import atomic_file


class OnWorkers(CenterEstimator):
    """Rows that workers can have are predicted by them; others by this process."""

    _parameters = CenterEstimator._parameters | {"executor": By(check_executor)}

    executor: Any

    def predict(self, X: Any) -> np.ndarray:
        """Nearest center of each row; of equally near ones the one of the lowest index.

        With `executor` the rows of a store, or blocks that Dask has, are read by the workers.

        Two centers a and b are equally near to a row x where the difference of the squared
        distances, the sum over the columns of (a - b)(a + b - 2 x), is below 1e-12 of the sum of
        the magnitudes of its terms. Columns in which the centers agree do not count, however large
        the row is there.
        """
        if self.executor is None or not is_elsewhere(X):
            return super().predict(X)
        with self._there(X) as remote:
            return remote.nearest(sp.csr_array(self.cluster_centers_))

    def transform(self, X: Any) -> np.ndarray:
        """Distances of each row to all centers (cosines: 1 - cos), in the float type of X.

        With `executor` the rows of a store, or blocks that Dask has, are read by the workers; the
        distances come here, as many values as rows times clusters.
        """
        if self.executor is None or not is_elsewhere(X):
            return super().transform(X)
        with self._there(X) as remote:
            return remote.distances(sp.csr_array(self.cluster_centers_))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances of the rows to their nearest centers.

        With `executor` the rows of a store, or blocks that Dask has, are read by the workers.
        """
        if self.executor is None or not is_elsewhere(X):
            return super().score(X, sample_weight=sample_weight)
        with self._there(X) as remote:
            remote.weigh(sample_weight, to_fit=False)
            return -remote.nearest_cost(sp.csr_array(self.cluster_centers_))

    def write_labels(self, X: Any, path: str | os.PathLike[str]) -> int:
        """Write what `predict` gives to an .npy file; says how many labels there are.

        With `executor` the workers write them, each those of its own rows, so that they are never
        all in one process: the file has to be where all workers see it. It appears whole or not at
        all.

        Parameters
        ----------
        X : matrix, frame, Rows, store or path
            The rows.
        path : str or path
            The file, ``*.npy``.
        """
        _check_npy(path)
        with ExitStack() as opened:
            if self.executor is None or not is_elsewhere(X):
                labels = self.predict(X)
                with opened.enter_context(atomic_file(path)).open("wb") as file:
                    np.save(file, labels)
                return len(labels)
            remote = opened.enter_context(self._there(X))
            return len(written_labels(remote, sp.csr_array(self.cluster_centers_), path))

    def _check_labels_file(self, path: Any) -> None:
        """Refuse a file that no worker could write."""
        if path is None:
            return
        if self.executor is None:
            raise ValueError("labels_file needs executor: without one, save labels_.")
        _check_npy(path)

    @contextmanager
    def _there(self, X: Any) -> Iterator[RemoteRows]:
        """Rows to predict, on the workers."""
        self.check_is_fitted()
        check_executor(self.executor)
        with open_rows(X, self.executor, PartSetting.of(self, self._measure().name)) as remote:
            self._check_columns(remote.described, reset=False)
            yield remote

    # --- a Client is neither copied nor pickled -----------------------------------------------

    def __sklearn_clone__(self) -> Any:
        """A clone with the same executor, not with a copy of it."""
        plain = copy.copy(self)
        plain.executor = None
        cloned: Any = super(OnWorkers, plain).__sklearn_clone__()
        cloned.executor = self.executor
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: of a Client the address of its scheduler."""
        return {**super().__getstate__(), "executor": told_to_others(self.executor)}


def written_labels(remote: RemoteRows, centers: sp.csr_array, path: Any) -> np.ndarray:
    """The nearest center of each row, from a file that the workers write."""
    with atomic_file(path) as partial:
        remote.write_nearest(centers, partial)
    return np.load(path, mmap_mode="r")


def _check_npy(path: Any) -> None:
    if Path(path).suffix != ".npy":
        raise ValueError(f"{path}: labels are written as .npy.")
