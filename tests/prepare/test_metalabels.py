"""Label representations: equations F.1 and F.2 of the paper, against dense sums."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.data import LAYOUTS, csr, dense, directions, signed, text

from sparsecluster import KMeans, SphericalKMeans, convert, metalabels
from sparsecluster.prepare.metalabels import label_row_blocks


@pytest.fixture
def Z():
    return text(np.random.default_rng(0))


@pytest.fixture
def Y():
    """Labels as frequent as they are in practice; the labels 3 and 39 have no instances."""
    rng = np.random.default_rng(1)
    Y = rng.random((600, 40)) < np.minimum(0.5, 1 / (1 + np.arange(40)))
    Y[:, [3, 39]] = False
    Y[:50] = False
    return Y.astype(float)


@pytest.fixture
def real_labels(real_data):
    """A function that loads instances and labels of a real set by name, or skips."""

    def load(name):
        Z = real_data(name)
        default = Path(__file__).parents[3] / "shared" / "data"
        folder = Path(os.environ.get("SPARSECLUSTER_DATA", default))
        return Z, sp.csr_array(sp.load_npz(folder / name / "Y.npz"))

    return load


def lists(Y):
    return [np.flatnonzero(row).tolist() for row in Y]


# --- against the definition ----------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [text, signed])
def test_labels_are_directions_of_the_sums_of_their_instances(kind, layout, Y):
    Z = kind(np.random.default_rng(2))
    X = metalabels(LAYOUTS[layout](Z, np.float64), Y)
    np.testing.assert_allclose(X.toarray(), directions(Y.T @ Z), rtol=1e-13, atol=1e-15)


def test_without_scaling_the_sums_are_left(Z, Y):
    X = metalabels(csr(Z), Y, norm=None)
    np.testing.assert_allclose(X.toarray(), Y.T @ Z, rtol=1e-13)


def test_float32_is_rounded_once_from_float64(Z, Y):
    Z = csr(Z, np.float32)
    X = metalabels(Z, Y)
    np.testing.assert_array_equal(X.data, metalabels(Z.astype(np.float64), Y).data.astype("f4"))


@pytest.mark.parametrize(
    "form",
    [csr, sp.csc_matrix, sp.coo_array, lists, np.bool_, lambda Y: Y.astype(np.int8)],
    ids=["csr", "csc", "coo", "lists", "bool", "int8"],
)
def test_all_forms_of_labels_say_the_same(Z, Y, form):
    expected = metalabels(csr(Z), Y)
    labels = form(Y)
    X = metalabels(csr(Z), labels, n_labels=40)
    np.testing.assert_array_equal(X.toarray(), expected.toarray())


def test_blocks_of_labels_change_nothing(Z, Y, monkeypatch):
    expected = metalabels(csr(Z), Y)
    monkeypatch.setitem(metalabels.__globals__, "BLOCK", 500)
    X = metalabels(csr(Z), Y)
    np.testing.assert_array_equal(X.indptr, expected.indptr)
    np.testing.assert_array_equal(X.indices, expected.indices)
    np.testing.assert_array_equal(X.data, expected.data)


# --- labels and entries that are special ---------------------------------------------------------


def test_labels_without_instances_are_zero_rows(Z, Y):
    X = metalabels(csr(Z), Y)
    assert X.shape == (40, 150)
    assert np.flatnonzero(np.diff(X.indptr) == 0).tolist() == [3, 39]


def test_a_label_listed_twice_counts_once():
    Z = csr([[1.0, 0], [0, 1.0]])
    X = metalabels(Z, [[0, 0], [0]], norm=None)
    assert X.toarray().tolist() == [[1.0, 1.0]]


def test_an_entry_of_a_matrix_stored_twice_counts_once():
    Y = sp.coo_array((np.ones(3), ([0, 0, 1], [0, 0, 0])), shape=(2, 1))
    assert metalabels(np.eye(2), Y, norm=None).toarray().tolist() == [[1.0, 1.0]]


def test_equal_instances_all_count():
    X = metalabels(csr([[1.0, 0], [1.0, 0], [0, 1.0]]), [[0], [0], [0]], norm=None)
    assert X.toarray().tolist() == [[2.0, 1.0]]


def test_instances_that_cancel_leave_nothing_stored():
    X = metalabels(csr([[1.0, 2.0], [-1.0, -2.0]]), [[0], [0]])
    assert (X.shape, X.nnz) == ((1, 2), 0)


def test_the_result_is_sorted_rows_with_int32(Z, Y):
    X = metalabels(csr(Z, np.float32, np.int64), sp.csr_array(Y))
    assert (X.format, X.dtype, X.indices.dtype) == ("csr", np.float32, np.int32)
    assert X.has_canonical_format


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.ones((3, 2)), "Z has 2 rows and Y has 3"),
        ([[0]], "Z has 2 rows and Y has 1"),
        (np.array([[1.0, 0], [0, 0.5]]), "row 1, label 1 has"),
        (csr([[1.0, 0], [2.0, 0]]), "row 1, label 0 has"),
        ([[0], [-1]], "label -1 in row 1"),
        ([[0], [1.0]], r"found 1\.0 in row 1"),
        ([["a"], ["b"]], "found 'a' in row 0.*MultiLabelBinarizer"),
        ([0, 1], "list of the labels of each instance"),
        (None, "list of the labels of each instance"),
        ([[], []], "Y has 0 labels"),
    ],
)
def test_labels_that_make_no_sense_are_refused(Y, message):
    with pytest.raises(ValueError, match=message):
        metalabels(np.eye(2), Y)


def test_a_label_beyond_the_number_of_labels_is_refused():
    with pytest.raises(ValueError, match="label 2 in row 1"):
        metalabels(np.eye(2), [[0], [2]], n_labels=2)


def test_a_number_of_labels_that_contradicts_the_matrix_is_refused():
    with pytest.raises(ValueError, match="Y has 2 columns"):
        metalabels(np.eye(2), np.eye(2), n_labels=3)


def test_instances_that_are_not_finite_are_named():
    with pytest.raises(ValueError, match="Z contains NaN: row 1, column 0"):
        metalabels(csr([[1.0], [np.nan]]), [[0], [0]])


def test_sums_too_large_for_float32_are_refused():
    with pytest.raises(ValueError, match=r"label 1 .* column 0"):
        metalabels(csr([[3e38], [3e38]], np.float32), [[1], [1]], norm=None)


# --- real sets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["delicious", "yahoo-reference"])
def test_labels_of_a_real_set_are_the_dense_sums_and_can_be_clustered(real_labels, name):
    Z, Y = real_labels(name)
    X = metalabels(Z, Y)
    expected = directions(Y.T.astype(float).toarray() @ Z.astype(float))
    np.testing.assert_allclose(dense(X), expected, rtol=2e-6, atol=1e-45)
    for estimator in (KMeans, SphericalKMeans):
        km = estimator(20, random_state=0).fit(X)
        assert np.unique(km.labels_).tolist() == list(range(20))


# --- at size -------------------------------------------------------------------------------------


def test_store_of_labels_is_that_of_all_instances_in_memory(Z, Y, tmp_path, monkeypatch):
    from sklearn.datasets import dump_svmlight_file

    from sparsecluster import read

    path = tmp_path / "x.svm"
    dump_svmlight_file(csr(Z), csr(Y), str(path), multilabel=True, zero_based=False)
    rows = read(path)
    expected = metalabels(rows.matrix, rows.labels)
    monkeypatch.setitem(metalabels.__globals__, "BLOCK", 300)
    store = convert(path, tmp_path / "labels.store", metalabels=True)
    assert store.matrix.dtype == expected.dtype
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(store.matrix, name), getattr(expected, name))
    assert sorted(one.name for one in (tmp_path / "labels.store").iterdir() if one.is_dir()) == []


def test_memory_grows_with_the_labels_of_instances_not_with_their_entries(tmp_path):
    rng, peaks, counts = np.random.default_rng(0), [], (24_000, 72_000)
    lines = [" ".join(f"{c}:1" for c in np.flatnonzero(rng.random(400) < 0.15) + 1)
             for _ in range(1000)]  # fmt: skip
    for n in counts:
        path = tmp_path / f"{n}.svm"
        path.write_text("".join(f"{i % 50},{50 + i % 50} {lines[i % 1000]}\n" for i in range(n)))
        rows = convert(path, tmp_path / f"{n}.store").checked()
        tracemalloc.start()
        for _ in label_row_blocks(rows, path):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    more = counts[1] - counts[0]
    bytes_of_labels, bytes_of_entries = more * 2 * 50, more * 60 * 8
    assert peaks[1] - peaks[0] < bytes_of_labels < bytes_of_entries / 4, peaks
