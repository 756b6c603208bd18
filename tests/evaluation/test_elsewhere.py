"""Silhouettes are the same to the bit for every partition of the rows."""

import numpy as np
import pytest
from support.machines import ForgetfulExecutor, sparse_rows, stored

from sparsecluster import KMeans, silhouette
from sparsecluster.run.local import LocalExecutor

X = sparse_rows(600, 100)
LABELS = KMeans(12, random_state=0).fit(X).labels_
NOISY = np.where(np.arange(600) % 7 == 0, -1, LABELS)
WEIGHTS = np.random.default_rng(0).random(600) * 3
GIVEN = {
    "plain": (LABELS, None),
    "noise": (NOISY, None),
    "weighted": (LABELS, WEIGHTS),
    "noise, weighted": (NOISY, WEIGHTS),
}


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize(("labels", "weights"), GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("scale", [1.0, 1e-130], ids=["", "tiny"])
def test_partitions_change_nothing(tmp_path, metric, labels, weights, scale):
    rows = X.astype(np.float64) * scale
    rows.data[rows.indptr[3] : rows.indptr[4]] = 0  # a row without direction
    path, given = stored(tmp_path, rows), {"metric": metric, "sample_weight": weights}
    whole = silhouette(path, labels, samples=True, **given)
    mean = silhouette(path, labels, **given)
    for executor in (LocalExecutor(1), LocalExecutor(3), ForgetfulExecutor(2)):
        parts = silhouette(path, labels, samples=True, executor=executor, **given)
        assert np.array_equal(whole, parts, equal_nan=True)
        assert silhouette(path, labels, executor=executor, **given) == mean


def test_labels_that_do_not_fit_are_refused(tmp_path):
    path = stored(tmp_path, X)
    with pytest.raises(ValueError, match="599 labels for 600 rows"):
        silhouette(path, LABELS[1:], executor=LocalExecutor(2))
    with pytest.raises(ValueError, match="X to be a store"):
        silhouette(X, LABELS, executor=LocalExecutor(2))
    with pytest.raises(ValueError, match="executor must be"):
        silhouette(path, LABELS, executor=1.5)
