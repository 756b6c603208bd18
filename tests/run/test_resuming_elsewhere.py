"""A fit goes on from its checkpoint anywhere: here, on workers, on another number of them."""

import warnings
import zlib
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from support.machines import assert_same_fit, sparse_rows, stored

from sparsecluster import KMeans, SphericalKMeans
from sparsecluster.run.local import LocalExecutor
from sparsecluster.storage.checkpoint import CheckpointError, checksums, joined_checksums

X = sparse_rows()
HERE = None


class Crash(Exception):
    pass


def crash(record):
    if record.iteration == 3:
        raise Crash


def resumed(estimator, executors, X, folder, **options):
    """The end of a fit that was cut short by the first executor, and went on by the second."""
    first, second = executors
    common = {"random_state": 0, "checkpoint": folder, "checkpoint_every": 0, **options}
    with pytest.raises(Crash):
        estimator(20, executor=first, callback=crash, **common).fit(X)
    began = []
    fit = estimator(20, executor=second, callback=began.append, **common).fit(X)
    assert began[0].iteration == 4
    return fit


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
@pytest.mark.parametrize(
    "executors",
    [(HERE, LocalExecutor(3)), (LocalExecutor(3), HERE), (LocalExecutor(2), LocalExecutor(5))],
    ids=["to workers", "from workers", "to more workers"],
)
def test_fit_goes_on_by_other_executors(store, tmp_path, estimator, executors):
    fit = resumed(estimator, executors, store, tmp_path / "checkpoint")
    assert_same_fit(estimator(20, random_state=0).fit(store), fit)


@pytest.mark.parametrize("executors", [(HERE, LocalExecutor(3)), (LocalExecutor(3), HERE)])
def test_columns_that_do_not_occur_do_not_keep_a_fit_from_going_on(tmp_path, executors):
    wide = sp.csr_matrix((X.data, X.indices * 1000 + 7, X.indptr), shape=(X.shape[0], 400_000))
    store = stored(tmp_path, wide)
    fit = resumed(KMeans, executors, store, tmp_path / "checkpoint")
    assert_same_fit(KMeans(20, random_state=0).fit(store), fit)


@pytest.mark.parametrize("executor", [HERE, LocalExecutor(3)])
def test_checkpoint_of_other_values_is_refused(store, tmp_path, executor):
    other = X.copy()
    other.data[-1] += 1
    folder = tmp_path / "checkpoint"
    fits = {"random_state": 0, "checkpoint": folder, "max_iter": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KMeans(20, **fits).fit(stored(tmp_path, other))
    with pytest.raises(CheckpointError, match="different values"):
        KMeans(20, executor=executor, **fits).fit(store)


@pytest.mark.parametrize("cuts", [[0, 9], [0, 4, 9], [0, 1, 2, 9], [0, 3, 3, 9]])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_checksums_of_parts_are_those_of_all_rows(cuts, kind):
    matrix = sp.csr_array(sp.random_array((9, 6), density=0.3, rng=3, format="csr"))
    matrix = sp.vstack([sp.csr_array((2, 6)), matrix[2:]], format="csr")  # entries come late
    matrix = matrix if kind == "sparse" else np.ascontiguousarray(matrix.toarray())
    parts = [matrix[begin:end] for begin, end in pairwise(cuts)]
    firsts = [None, *cuts[1:-1]]
    if kind == "sparse":
        expected = [
            zlib.crc32(array.astype(dtype).tobytes())
            for array, dtype in (
                (matrix.indptr, np.int64), (matrix.indices, np.int32), (matrix.data, np.float64)
            )
        ]  # fmt: skip
        firsts = [None, *(int(matrix.indptr[cut]) for cut in cuts[1:-1])]
    else:
        expected = ["float64", zlib.crc32(matrix.tobytes())]
    found = [checksums(part, first) for part, first in zip(parts, firsts, strict=True)]
    assert joined_checksums(found) == expected
