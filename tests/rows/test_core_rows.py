"""Views of rows in the core: all about them is said when they are made."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import _core


def random_csr(n_rows=200, n_features=300, seed=0):
    matrix = sp.random_array(
        (n_rows, n_features), density=0.02, format="csr", rng=np.random.default_rng(seed)
    )
    matrix.sort_indices()
    return matrix


def view(matrix, **options):
    rows = _core.Rows.sparse(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        matrix.data,
        matrix.shape[1],
        **options,
    )
    assert rows.inspect(1) == ("none", -1)
    return rows


def without_empty_columns(matrix):
    occurring, renumbered = np.unique(matrix.indices, return_inverse=True)
    assert len(occurring) < matrix.shape[1]
    parts = (matrix.data, renumbered, matrix.indptr)
    return sp.csr_array(parts, shape=(matrix.shape[0], len(occurring)))


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_left_out_but_declared_give_the_same_variance(weighted):
    matrix = random_csr()
    weights = np.random.default_rng(1).random(200) if weighted else None
    whole = _core.column_stats(view(matrix), weights)
    part = _core.column_stats(view(without_empty_columns(matrix), n_columns=300), weights)
    assert (part.scatter, part.mean_variance) == (whole.scatter, whole.mean_variance)


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_of_columns_do_not_depend_on_the_threads(weighted):
    # Magnitudes from 1e-8 to 1e8: a sum in another order would be rounded otherwise.
    matrix = random_csr(n_rows=5000, n_features=40, seed=2)
    rng = np.random.default_rng(3)
    matrix.data = rng.normal(size=matrix.nnz) * 10.0 ** rng.integers(-8, 9, size=matrix.nnz)
    weights = rng.random(5000) if weighted else None
    one = _core.column_stats(view(matrix), weights, 1)
    for n_threads in (2, 3, 8):
        several = _core.column_stats(view(matrix), weights, n_threads)
        assert (several.scatter, several.mean_variance) == (one.scatter, one.mean_variance)


def test_a_selection_keeps_the_declared_columns():
    matrix, ids = random_csr(), np.arange(0, 200, 3)
    whole = _core.column_stats(view(matrix).select(ids))
    part = _core.column_stats(view(without_empty_columns(matrix), n_columns=300).select(ids))
    assert part.mean_variance == whole.mean_variance


def test_rows_that_were_not_inspected_are_refused():
    matrix = random_csr()
    rows = _core.Rows.dense(matrix.toarray())
    with pytest.raises(ValueError, match="not inspected"):
        _core.column_stats(rows)


def test_inspecting_again_answers_the_same():
    rows = _core.Rows.dense(np.array([[1.0, 2.0], [np.nan, 1.0]]))
    assert rows.inspect(1) == rows.inspect(2) == ("not_finite", 1)
