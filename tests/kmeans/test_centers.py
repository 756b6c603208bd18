"""Centers between numpy, scipy and the core."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.compare import same

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans
from sparsecluster.kmeans import centers as centers_

DENSE = np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [-0.0, 2.0, 3.25]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_centers_are_those_of_a_sparse_matrix(dtype, order):
    dense = np.array(DENSE, dtype=dtype, order=order)
    found = centers_.to_core(dense, n_features=5).to_csr()
    wanted = centers_.to_core(sp.csr_array(dense), n_features=5).to_csr()
    assert same(found, wanted)


def test_dense_centers_have_to_be_finite():
    with pytest.raises(ValueError, match="a center is not finite"):
        centers_.to_core(np.array([[np.nan, 1.0]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_that_need_no_conversion_fit_as_others(dtype):
    X = np.random.default_rng(0).random((40, 6)).astype(dtype)
    one = KMeans(3, random_state=0).fit(X)
    other = KMeans(3, random_state=0).fit(np.asfortranarray(X))
    assert same([one.labels_, one.cluster_centers_], [other.labels_, other.cluster_centers_])
    assert one.n_features_in_ == other.n_features_in_ == 6
    with pytest.raises(ValueError, match="X has 5 features, but KMeans is expecting 6"):
        one.predict(np.ascontiguousarray(X[:, :5]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_arrays_that_need_no_conversion_have_to_be_finite(bad):
    X = np.ones((4, 3))
    X[2, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinit"):
        KMeans(2).fit(X)


def centers_as_given(dtype, arrays):
    """Centers in CSR as products of matrices leave them: unsorted, or with columns twice."""
    columns = {"unsorted": [2, 0, 1, 3], "twice": [2, 0, 3, 3]}[arrays]
    values, begins = np.array([1, 5, 4, 2], dtype=dtype), [0, 2, 4]
    return sp.csr_array((values, np.array(columns), np.array(begins)), shape=(2, 4))


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans, MiniBatchKMeans])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("arrays", ["unsorted", "twice"])
@pytest.mark.parametrize("writeable", [True, False])
def test_sparse_starts_are_taken_as_they_are_and_left_alone(estimator, dtype, arrays, writeable):
    X = np.random.default_rng(0).random((30, 4))
    init = centers_as_given(dtype, arrays)
    parts = (init.data, init.indices, init.indptr)
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = writeable
    dense = init.toarray()
    found = estimator(2, init=init, max_iter=1).fit(X)
    wanted = estimator(2, init=dense, max_iter=1).fit(X)
    assert same([found.labels_, found.inertia_], [wanted.labels_, wanted.inertia_])
    assert same([init.data, init.indices, init.indptr], before)


def test_checkpoints_leave_sparse_starts_alone(tmp_path):
    X = np.random.default_rng(0).random((30, 4))
    init = centers_as_given(np.float64, "twice")
    before = [init.data.copy(), init.indices.copy(), init.indptr.copy()]
    KMeans(2, init=init, checkpoint=tmp_path).fit(X)
    assert same([init.data, init.indices, init.indptr], before)
