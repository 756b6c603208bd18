"""Bad values, shapes and weights get an error that names the problem and the place."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from support.data import csr

from sparsecluster import (
    KMeans,
    MiniBatchKMeans,
    Prepare,
    kmeans_plusplus,
    metalabels,
    read,
    seed_centers,
)

X = np.arange(12.0).reshape(4, 3)

MAKERS = {"sparse": csr, "dense": np.array, "csc": sp.csc_array, "coo": sp.coo_array}


def fit(matrix, n_clusters=2, *, sample_weight=None, **options):
    return KMeans(n_clusters, random_state=0, **options).fit(matrix, sample_weight=sample_weight)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "inf")]
)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_value_that_is_not_finite_is_named_with_its_place(make, value, kind, dtype):
    bad = X.astype(dtype)
    bad[2, 1] = value
    with pytest.raises(ValueError, match=rf"X contains {kind}.*row 2, column 1"):
        fit(make(bad))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_fitted_model_refuses_nan(method):
    bad = X.copy()
    bad[3, 0] = np.nan
    with pytest.raises(ValueError, match="row 3, column 0"):
        getattr(fit(X), method)(csr(bad))


def test_first_bad_row_of_many_is_named():
    bad = csr(np.ones((5000, 2)))
    bad.data[[2 * 4321, 2 * 1234 + 1]] = np.nan
    with pytest.raises(ValueError, match="row 1234, column 1"):
        fit(bad)


def test_nan_in_an_unsorted_row_is_named():
    bad = sp.csr_array(([1.0, np.nan, 3.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    with pytest.raises(ValueError, match=r"NaN.*row 0, column 0"):
        fit(bad)


@pytest.mark.parametrize("bad", [[["a", "b"]] * 4, np.array([[1, "x"]] * 4, dtype=object)])
def test_text_is_refused(bad):
    with pytest.raises(ValueError, match="could not convert string"):
        fit(bad)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_complex_numbers_are_refused(make):
    with pytest.raises(ValueError, match="Complex data not supported"):
        fit(make(X * 1j))


@pytest.mark.parametrize("make", [np.zeros, sp.csr_array], ids=["dense", "sparse"])
def test_matrix_without_rows_is_refused(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fit(make((0, 3)))


@pytest.mark.parametrize("make", [np.zeros, sp.csr_array], ids=["dense", "sparse"])
def test_matrix_without_columns_is_refused(make):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        fit(make((3, 0)))


@pytest.mark.parametrize(
    "bad",
    [np.arange(3.0), np.zeros((2, 2, 2)), sp.coo_array([1.0, 2.0, 3.0]), sp.csr_array([1.0, 2.0])],
    ids=["1-d", "3-d", "1-d coo", "1-d csr"],
)
def test_matrix_of_other_than_two_dimensions_is_refused(bad):
    with pytest.raises(ValueError, match=r"(?i)expected 2D|dim"):
        fit(bad)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_wrong_number_of_features_is_named(method, make):
    with pytest.raises(ValueError, match="X has 5 features, but KMeans is expecting 3"):
        getattr(fit(X), method)(make(np.ones((2, 5))))


def test_more_clusters_than_rows_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"n_samples=4.*n_clusters=5"):
        fit(X, 5)


def test_more_seeds_than_rows_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"n_samples=4.*n_clusters=5"):
        kmeans_plusplus(X, 5)


def test_number_of_weights_must_be_that_of_rows():
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(4,\)"):
        fit(X, sample_weight=[1, 2, 3])


@pytest.mark.parametrize(
    ("value", "named"), [(np.nan, "NaN"), (np.inf, "infinity"), (-1, "egative")]
)
def test_weights_must_be_finite_and_not_negative(value, named):
    with pytest.raises(ValueError, match=rf"(?s)sample_weight.*{named}|{named}.*sample_weight"):
        fit(X, sample_weight=[1, 1, value, 1])


def test_weights_must_not_all_be_zero():
    with pytest.raises(ValueError, match=r"(?i)sample.weights? .*zero"):
        fit(X, sample_weight=[0, 0, 0, 0])


def test_score_refuses_bad_weights():
    with pytest.raises(ValueError, match="sample_weight"):
        fit(X).score(X, sample_weight=[1, 2])


@pytest.mark.parametrize(
    "use",
    [
        fit,
        lambda X: MiniBatchKMeans(2, random_state=0).fit(X),
        lambda X: seed_centers(X, 2, random_state=0),
        lambda X: Prepare(norm="l2").fit(X),
        lambda X: metalabels(X, [[0]] * len(X)),
    ],
)
def test_masked_entries_are_refused(use):
    plain = np.asarray(sp.csr_array(X).toarray())
    use(np.ma.masked_array(plain, mask=np.zeros(plain.shape, dtype=bool)))
    with pytest.raises(ValueError, match=r"masked.*filled\(0\)"):
        use(np.ma.masked_array(plain, mask=plain > 0))


def test_masked_weights_and_masked_values_of_sparse_rows_are_refused():
    with pytest.raises(ValueError, match=r"sample_weight is a masked array"):
        fit(X, sample_weight=np.ma.masked_array(np.ones(4), mask=[0, 1, 0, 0]))
    masked = sp.csr_array(X)
    masked.data = np.ma.masked_array(masked.data, mask=masked.data > 5)
    with pytest.raises(ValueError, match="masked"):
        fit(masked)


def test_rows_can_be_pickled(tmp_path):
    path = tmp_path / "x.npz"
    sp.save_npz(path, sp.csr_matrix(X))
    rows = read(path)
    again = pickle.loads(pickle.dumps(rows))
    assert again.shape == rows.shape
    assert fit(again).labels_.tolist() == fit(rows).labels_.tolist()
