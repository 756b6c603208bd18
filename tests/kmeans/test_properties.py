"""What must hold for any data: invariances, degenerate shapes, and labels that fit the centers."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning
from support.data import NAMES, csr, dense, problem, weights_for
from support.marks import covering
from support.oracle import lloyd

from sparsecluster import KMeans, _core

bounded = settings(max_examples=40, deadline=None, derandomize=True)
ALGORITHMS = st.sampled_from(_core.ALGORITHMS)
DTYPES = st.sampled_from(["float32", "float64"])
# Few values, so that equal rows, equal distances and empty rows are common.
VALUES = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, -1.0, 0.5, 3.25])


@st.composite
def matrices(draw, values=VALUES, most_rows=24):
    shape = (draw(st.integers(1, most_rows)), draw(st.integers(1, 6)))
    return draw(arrays(np.float64, shape, elements=values))


@st.composite
def starts(draw, values=VALUES):
    """Rows, and some of the distinct ones as starting centers."""
    X = draw(matrices(values))
    distinct = np.unique(X, axis=0)
    order = draw(st.permutations(range(len(distinct))))
    return X, distinct[list(order)[: draw(st.integers(1, len(distinct)))]]


def fit(X, n_clusters, *, sample_weight=None, **options):
    options = {"tol": 0, "random_state": 0, "n_threads": 2, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_clusters, **options).fit(X, sample_weight=sample_weight)


def n_distinct(X):
    return len(np.unique(X, axis=0))


def same_groups(one, other):
    """Whether two labellings differ by the names of the clusters only."""
    pairs = len(set(zip(one.tolist(), other.tolist(), strict=True)))
    return pairs == len(set(one.tolist())) == len(set(other.tolist()))


# --- the oracle -----------------------------------------------------------------------------------


@settings(bounded, max_examples=100)
@given(
    start=starts(st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.3, 0.7, -0.1, 1.1])),
    dtype=DTYPES,
    algorithm=ALGORITHMS,
)
def test_decimal_values_have_the_labels_of_the_oracle(start, dtype, algorithm):
    X, centers = (part.astype(dtype).astype(np.float64) for part in start)
    steps = lloyd(X, centers)
    # Which row fills a cluster may hang on the last bit of a distance.
    assume(not any(step.refilled for step in steps))
    km = fit(csr(X, dtype), len(centers), init=centers, algorithm=algorithm)
    np.testing.assert_array_equal(km.labels_, steps[-1].labels)


# --- invariances ---------------------------------------------------------------------------------


@bounded
@given(start=starts(), algorithm=ALGORITHMS, data=st.data())
def test_permuted_rows_permute_the_labels(start, algorithm, data):
    X, centers = start
    # Algorithm E.1 breaks ties by the position of rows.
    assume(not any(step.refilled for step in lloyd(X, centers)))
    order = np.array(data.draw(st.permutations(range(len(X)))))
    km = fit(csr(X), len(centers), init=centers, algorithm=algorithm)
    permuted = fit(csr(X[order]), len(centers), init=centers, algorithm=algorithm)
    np.testing.assert_array_equal(permuted.labels_, km.labels_[order])


@bounded
@given(start=starts(), algorithm=ALGORITHMS, data=st.data())
def test_permuted_features_change_no_label(start, algorithm, data):
    X, centers = start
    order = np.array(data.draw(st.permutations(range(X.shape[1]))))
    km = fit(csr(X), len(centers), init=centers, algorithm=algorithm)
    permuted = fit(csr(X[:, order]), len(centers), init=centers[:, order], algorithm=algorithm)
    np.testing.assert_array_equal(permuted.labels_, km.labels_)


@bounded
@given(start=starts(), algorithm=ALGORITHMS, data=st.data())
def test_a_weight_is_a_number_of_copies(start, algorithm, data):
    X, centers = start
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
    assume(weights.any())
    # A row that is alone in its cluster is not alone where it has a copy.
    assume(not any(step.refilled for step in lloyd(X, centers, weights)))
    weighted = fit(X, len(centers), init=centers, algorithm=algorithm, sample_weight=weights)
    copies = fit(np.repeat(X, weights, axis=0), len(centers), init=centers, algorithm=algorithm)
    np.testing.assert_array_equal(copies.labels_, np.repeat(weighted.labels_, weights))


@bounded
@given(start=starts(), exponent=st.integers(-40, 40))
def test_weights_count_by_their_ratios(start, exponent):
    X, centers = start
    weights = 1.0 + np.arange(len(X)) % 3
    km = fit(X, len(centers), init=centers, sample_weight=weights)
    scaled = fit(X, len(centers), init=centers, sample_weight=weights * 2.0**exponent)
    np.testing.assert_array_equal(scaled.labels_, km.labels_)
    np.testing.assert_array_equal(scaled.cluster_centers_, km.cluster_centers_)


@bounded
@given(X=matrices(), exponent=st.integers(-330, 330), algorithm=ALGORITHMS)
def test_scaling_by_a_power_of_two_scales_the_centers_to_the_bit(X, exponent, algorithm):
    factor = 2.0**exponent
    n_clusters = min(3, len(X))
    km = fit(X, n_clusters, algorithm=algorithm)
    scaled = fit(X * factor, n_clusters, algorithm=algorithm)
    np.testing.assert_array_equal(scaled.labels_, km.labels_)
    np.testing.assert_array_equal(scaled.cluster_centers_, km.cluster_centers_ * factor)


@pytest.mark.parametrize("value", [1e100, -1e100, 1e-100, 1e140, 1e-140])
@pytest.mark.parametrize("name", ["unit", "binary", "signed"])
def test_huge_and_tiny_values_are_grouped_like_others(name, value):
    X, centers = problem(name)
    km = fit(csr(X), len(centers), init=centers)
    scaled = fit(csr(X * value), len(centers), init=centers * value)
    np.testing.assert_array_equal(scaled.labels_, km.labels_)


def test_tiny_rows_beside_huge_ones_have_their_own_clusters():
    X = np.array([[1e-100, 0], [3e-100, 0], [0, 1e100], [0, 3e100]])
    assert len(set(fit(csr(X), 4, init=X).labels_)) == 4


@bounded
@given(start=starts(), dtype=DTYPES, algorithm=ALGORITHMS)
def test_sparse_and_dense_rows_have_the_same_labels(start, dtype, algorithm):
    X, centers = start
    options = {"init": centers, "algorithm": algorithm}
    sparse = fit(csr(X, dtype), len(centers), **options)
    np.testing.assert_array_equal(
        sparse.labels_, fit(X.astype(dtype), len(centers), **options).labels_
    )


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("name", ["unit", "gaps"])
def test_every_sparse_format_gives_the_labels_of_csr(name, layout, container):
    X, centers = problem(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
        matrix = container(X).asformat(layout)
    km = fit(matrix, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(csr(X), len(centers), init=centers).labels_)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_every_order_of_a_dense_array_gives_the_same_labels(order):
    X, centers = problem("blobs")
    if order == "strided":
        matrix = np.repeat(X, 2, axis=1)[:, ::2]
    else:
        matrix = np.array(X, order=order)
    km = fit(matrix, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(csr(X), len(centers), init=centers).labels_)


@bounded
@given(start=starts(), seed=st.integers(0, 1000))
def test_unsorted_and_duplicate_entries_count_as_their_sums(start, seed):
    X, centers = start
    rng = np.random.default_rng(seed)
    tidy = sp.coo_array(X)
    # Each entry as two halves, in any order within its row.
    rows, columns = np.tile(tidy.row, 2), np.tile(tidy.col, 2)
    order = np.lexsort((rng.random(len(rows)), rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    messy = sp.csr_array((np.tile(tidy.data / 2, 2)[order], columns[order], indptr), shape=X.shape)
    km = fit(messy, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(X, len(centers), init=centers).labels_)


def test_unsorted_input_is_left_as_it_was():
    matrix = sp.csr_array(([1.0, 2.0, 3.0], [1, 0, 1], [0, 2, 3]), shape=(2, 2))
    fit(matrix, 2)
    assert matrix.indices.tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", ["unit", "counts"])
def test_explicit_zeros_change_no_label(name):
    X, centers = problem(name)
    matrix = csr(X)
    padded = csr(np.ones_like(X))
    padded.data[:] = X.ravel()
    km = fit(padded, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(matrix, len(centers), init=centers).labels_)


# --- storage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_read_only_sparse_input_is_accepted(dtype):
    X, centers = problem("text", dtype)
    matrix = csr(X, dtype)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    km = fit(matrix, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, km.predict(matrix))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_mapped_sparse_input_gives_the_same_labels(dtype, tmp_path):
    X, centers = problem("text", dtype)
    matrix = csr(X, dtype)
    for part in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{part}.npy", getattr(matrix, part))
    parts = [
        np.load(tmp_path / f"{part}.npy", mmap_mode="r") for part in ("data", "indices", "indptr")
    ]
    mapped = sp.csr_array(tuple(parts), shape=X.shape)
    km = fit(mapped, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(matrix, len(centers), init=centers).labels_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_mapped_dense_input_gives_the_same_labels(dtype, tmp_path):
    X, centers = problem("blobs", dtype)
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    km = fit(mapped, len(centers), init=centers)
    np.testing.assert_array_equal(
        km.labels_, fit(X.astype(dtype), len(centers), init=centers).labels_
    )


def test_sparse_arrays_with_strides_are_accepted():
    X, centers = problem("text")
    matrix = csr(X)
    matrix.data = np.repeat(matrix.data, 2)[::2]
    matrix.indices = np.repeat(matrix.indices, 2)[::2]
    km = fit(matrix, len(centers), init=centers)
    np.testing.assert_array_equal(km.labels_, fit(csr(X), len(centers), init=centers).labels_)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint16, np.float16])
def test_other_number_types_are_taken_by_value(dtype):
    X = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=dtype)
    assert fit(X, 2).labels_.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])


# --- degenerate shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_one_row_is_its_own_center(make):
    X = np.array([[0.0, 2.0, -1.0]])
    km = fit(make(X), 1)
    assert km.labels_.tolist() == [0]
    np.testing.assert_array_equal(dense(km.cluster_centers_), X)


@bounded
@given(X=matrices(), algorithm=ALGORITHMS)
def test_one_cluster_has_the_mean_as_its_center(X, algorithm):
    km = fit(csr(X), 1, algorithm=algorithm)
    np.testing.assert_allclose(dense(km.cluster_centers_)[0], X.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("algorithm", _core.ALGORITHMS)
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_as_many_clusters_as_rows_gives_each_its_own(init, algorithm):
    X = csr(np.random.default_rng(0).random((40, 5)))
    km = fit(X, 40, init=init, algorithm=algorithm)
    assert sorted(km.labels_) == list(range(40))
    assert km.inertia_ == 0


@bounded
@given(
    X=matrices(), dtype=DTYPES, algorithm=ALGORITHMS, init=st.sampled_from(["k-means++", "random"])
)
def test_each_distinct_row_is_a_cluster_where_there_are_few(X, dtype, algorithm, init):
    km = fit(csr(X, dtype), len(X), algorithm=algorithm, init=init)
    groups = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    assert same_groups(km.labels_, groups)


@bounded
@given(X=matrices(), init=st.sampled_from(["k-means++", "random"]))
def test_n_clusters_tells_how_many_distinct_rows_there_are(X, init):
    assert fit(csr(X), len(X), init=init).n_clusters_ == n_distinct(X)


@pytest.mark.parametrize("init", ["k-means++", "random", np.ones((3, 2))], ids=lambda i: str(i)[:9])
def test_fewer_distinct_rows_than_clusters_gives_a_warning(init):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\).*n_clusters \(3\)"):
        KMeans(3, init=init, random_state=0).fit(X)


def test_every_attribute_shrinks_with_the_number_of_clusters():
    X = csr(np.repeat(np.eye(3), 4, axis=0))
    km = fit(X, 7)
    assert km.n_clusters_ == 3
    assert km.cluster_centers_.shape == (3, 3)
    assert km.transform(X).shape == (12, 3)
    assert len(km.get_feature_names_out()) == 3
    assert len(km.top_terms()) == 3


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1e100, 1e-100])
@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_equal_rows_are_one_cluster(make, value):
    km = fit(make(np.full((9, 4), value)), 3)
    assert km.n_clusters_ == 1
    assert km.labels_.tolist() == [0] * 9
    np.testing.assert_allclose(dense(km.cluster_centers_), np.full((1, 4), value))


def test_equal_rows_cost_nothing():
    assert fit(csr(np.full((7, 3), 0.1)), 1).inertia_ == pytest.approx(0, abs=1e-30)


def test_rows_without_entries_form_a_cluster_at_the_origin():
    X = csr(np.array([[0, 0], [0, 0], [5.0, 5.0], [5.0, 5.5]]))
    km = fit(X, 2)
    origin = km.labels_[0]
    assert km.labels_[1] == origin != km.labels_[2] == km.labels_[3]
    np.testing.assert_array_equal(dense(km.cluster_centers_)[origin], [0, 0])


def test_empty_columns_change_nothing_but_the_shape():
    X, centers = problem("text")
    wide = sp.hstack([sp.csr_array((len(X), 1000)), csr(X), sp.csr_array((len(X), 1000))]).tocsr()
    start = np.pad(centers, ((0, 0), (1000, 1000)))
    km = fit(csr(X), len(centers), init=centers)
    padded = fit(wide, len(centers), init=start)
    np.testing.assert_array_equal(padded.labels_, km.labels_)
    np.testing.assert_array_equal(
        dense(padded.cluster_centers_)[:, 1000:-1000], dense(km.cluster_centers_)
    )


def test_a_matrix_without_entries_is_one_cluster():
    assert fit(sp.csr_array((5, 3)), 2).n_clusters_ == 1


# --- labels, centers and costs belong together ---------------------------------------------------


@bounded
@given(
    start=starts(),
    dtype=DTYPES,
    algorithm=ALGORITHMS,
    max_iter=st.sampled_from([1, 2, 300]),
    far=st.booleans(),
    weighted=st.booleans(),
)
def test_labels_are_those_that_predict_gives(start, dtype, algorithm, max_iter, far, weighted):
    X, centers = start
    centers = centers.copy()
    if far:
        centers[-1] += 1000  # empty at first, so that it is refilled
    weights = np.arange(len(X)) % 3 * 0.5 if weighted else np.ones(len(X))
    assume(weights.any())
    matrix = csr(X, dtype)
    km = fit(
        matrix,
        len(centers),
        init=centers,
        algorithm=algorithm,
        max_iter=max_iter,
        sample_weight=weights,
    )
    np.testing.assert_array_equal(km.labels_, km.predict(matrix))


@covering(
    name=NAMES,
    dtype=["float32", "float64"],
    algorithm=_core.ALGORITHMS,
    max_iter=[1, 2, 3, 300],
)
def test_labels_of_a_default_fit_are_those_that_predict_gives(name, dtype, algorithm, max_iter):
    X, centers = problem(name, dtype)
    matrix = csr(X, dtype)
    km = fit(matrix, len(centers), algorithm=algorithm, max_iter=max_iter, tol=1e-4)
    np.testing.assert_array_equal(km.labels_, km.predict(matrix))


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_cost_never_goes_up(name, weighted):
    X, centers = problem(name)
    weights = weights_for(len(X)) if weighted else None
    km = fit(csr(X), len(centers), init=centers, sample_weight=weights)
    costs = np.array([record.cost for record in km.history_])
    rounding = 1e-15 * np.square(X).sum() * (1 if weights is None else weights.max())
    assert (np.diff(costs) <= 1e-12 * costs[:-1] + rounding).all()


@bounded
@given(start=starts(), far=st.booleans())
def test_cost_never_goes_up_where_clusters_are_refilled(start, far):
    X, centers = start
    centers = centers + 1000 * far
    costs = [record.cost for record in fit(X, len(centers), init=centers).history_]
    assert np.diff(costs).max(initial=0) <= 1e-12 * (1 + np.square(X).sum())


def test_cost_never_goes_up_far_from_the_origin():
    X = 1e8 + np.random.default_rng(1).random((300, 3))
    costs = [record.cost for record in fit(X, 12, init=X[:12]).history_]
    assert np.diff(costs).max() <= 1e-9 * costs[0]


@pytest.mark.parametrize("name", NAMES)
def test_converged_centers_are_the_means_of_their_rows(name):
    X, centers = problem(name)
    km = fit(csr(X), len(centers), init=centers)
    for k, center in enumerate(dense(km.cluster_centers_)):
        np.testing.assert_allclose(
            center, X[km.labels_ == k].mean(axis=0), rtol=1e-12, atol=1e-12 * np.abs(X).max()
        )
