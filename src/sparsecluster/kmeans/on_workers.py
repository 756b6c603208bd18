"""Estimators with centers that may compute on the workers of an executor."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.elsewhere import is_elsewhere
from sparsecluster.kmeans.remote import PartSetting, open_rows
from sparsecluster.rows.parameters import By
from sparsecluster.run.dask import check_executor, told_to_others


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
        self.check_is_fitted()
        check_executor(self.executor)
        setting = PartSetting.of(self, self._measure().name)
        with open_rows(X, self.executor, setting) as remote:
            self._check_columns(remote.described, reset=False)
            return remote.nearest(sp.csr_array(self.cluster_centers_))

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
