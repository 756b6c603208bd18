"""Rows give the same results to the bit, wherever they are and whatever computes with them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.compare import same
from support.data import csr
from support.estimators import ROWS, SPARSE, every_estimator, fitted, outcome, quietly

from sparsecluster import convert, open_store, read


def svmlight(folder):
    path = folder / "rows.svm"
    lines = [" ".join(f"{c + 1}:{row[c]!r}" for c in np.flatnonzero(row)) for row in ROWS.tolist()]
    path.write_text("".join(f"0 {line}\n" for line in lines))
    return path


def npz(folder):
    sp.save_npz(folder / "rows.npz", sp.csr_matrix(SPARSE))
    return folder / "rows.npz"


IN_MEMORY = {
    "int64": lambda folder: csr(ROWS, np.float32, np.int64),
    "matrix": lambda folder: sp.csr_matrix(SPARSE),
    "csc": lambda folder: SPARSE.tocsc(),
    "coo": lambda folder: SPARSE.tocoo(),
    "dense": lambda folder: ROWS,
    "fortran": lambda folder: np.asfortranarray(ROWS),
    "frame": lambda folder: pd.DataFrame(ROWS).add_prefix("column"),
    "Rows": lambda folder: read(folder / "rows.npz"),
    "opened store": lambda folder: open_store(folder / "rows.store"),
}
PATHS = {
    "svmlight": lambda folder: folder / "rows.svm",
    "npz": lambda folder: folder / "rows.npz",
    "store": lambda folder: folder / "rows.store",
    "text": lambda folder: str(folder / "rows.npz"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the rows in all kinds of files, which tests do not change."""
    folder = tmp_path_factory.mktemp("rows")
    svmlight(folder)
    convert(npz(folder), folder / "rows.store")
    return folder


def assert_fit_gives(expected, case, X):
    assert same(outcome(case, quietly(case.make().fit, X), X), expected)


@every_estimator()
@pytest.mark.parametrize("source", IN_MEMORY.values(), ids=IN_MEMORY)
def test_rows_in_memory_give_what_the_matrix_gives(case, source, folder):
    assert_fit_gives(case.outcome(), case, source(folder))


@every_estimator()
@pytest.mark.parametrize("source", PATHS.values(), ids=PATHS)
def test_path_gives_what_the_matrix_gives(case, source, folder):
    assert_fit_gives(case.outcome(), case, source(folder))


@every_estimator()
def test_sparse_frame_gives_what_the_matrix_gives(case):
    frame = pd.DataFrame.sparse.from_spmatrix(SPARSE).add_prefix("column")
    matrix = csr(ROWS)  # to scikit-learn it is float64
    assert_fit_gives(outcome(case, quietly(case.make().fit, matrix), matrix), case, frame)


@every_estimator()
@pytest.mark.parametrize("source", IN_MEMORY.values(), ids=IN_MEMORY)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_fit_of_the_matrix_takes_rows_from_anywhere(case, source, folder):
    assert same(outcome(case, case.fitted(), source(folder)), case.outcome())


@every_estimator("threads")
def test_any_number_of_threads_gives_the_same(case, threads_for_little_work):
    expected = outcome(case, quietly(case.make(n_threads=1).fit, SPARSE), SPARSE)
    for n_threads in (2, 3, 8):
        estimator = quietly(case.make(n_threads=n_threads).fit, SPARSE)
        assert same(outcome(case, estimator, SPARSE), expected)


@every_estimator("threads", "partial_fit")
def test_any_number_of_threads_learns_the_same_from_batches(case, threads_for_little_work):
    found = []
    for n_threads in (1, 2, 8):
        estimator = case.make(n_threads=n_threads)
        for begin in range(0, len(ROWS), 40):
            quietly(estimator.partial_fit, SPARSE[begin : begin + 40])
        found.append(fitted(estimator))
    assert same(found[1], found[0])
    assert same(found[2], found[0])


@every_estimator("memory_limit")
@pytest.mark.parametrize("limit", [1, 1000, 50_000])
@pytest.mark.filterwarnings("ignore:.*memory limit:UserWarning")
def test_little_memory_changes_no_label_and_no_center(case, limit):
    expected = case.outcome()
    found = outcome(case, quietly(case.make(memory_limit=limit).fit, SPARSE), SPARSE)
    apart = ("algorithm_",)  # Elkan's bounds may not fit
    for name in set(expected) - set(apart):
        assert same(found[name], expected[name]), name
