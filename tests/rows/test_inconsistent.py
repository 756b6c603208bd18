"""Sparse matrices whose arrays contradict each other are refused, and never crash a process."""

import re
import sys
import textwrap
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from support.data import csr
from support.processes import forked

from sparsecluster import (
    KMeans,
    Prepare,
    kmeans_plusplus,
    seed_centers,
)

X = np.arange(12.0).reshape(4, 3)


def fit(matrix, n_clusters=2, *, sample_weight=None, **options):
    return KMeans(n_clusters, random_state=0, **options).fit(matrix, sample_weight=sample_weight)


def broken(layout="csr", **parts):
    """A good matrix with some of its arrays replaced behind scipy's back."""
    matrix = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5], [0, 0, 6]])).asformat(layout)
    for name, value in parts.items():
        kind = np.float64 if name == "data" else np.int32
        setattr(matrix, name, np.array(value, dtype=kind))
    return matrix


BROKEN = {
    "csr column too large": (broken(indices=[0, 2, 1, 0, 2, 7]), "csr.*row 3 has a column"),
    "csr column negative": (broken(indices=[0, 2, 1, -1, 2, 2]), "csr.*row 2 has a column"),
    "csr column far out": (broken(indices=[0, 2, 2**31 - 1, 0, 2, 2]), "csr.*row 1 has a column"),
    "csr indptr decreases": (broken(indptr=[0, 2, 1, 5, 6]), "csr.*indptr decreases at row 1"),
    "csr indptr negative": (broken(indptr=[0, -2, 3, 5, 6]), "csr.*indptr decreases at row 0"),
    "csr indptr starts late": (broken(indptr=[1, 2, 3, 5, 6]), "csr"),
    "csr indptr ends late": (broken(indptr=[0, 2, 3, 5, 9]), "csr"),
    "csr indptr leaps out": (broken(indptr=[0, 2, 10**6, 5, 6]), "csr"),
    "csr indptr too short": (broken(indptr=[0, 2, 3, 6]), "csr"),
    "csr indptr too long": (broken(indptr=[0, 2, 3, 5, 6, 6]), "csr"),
    "csr fewer values": (broken(data=[1, 2, 3]), "csr"),
    "csr fewer columns": (broken(indices=[0, 2, 1]), "csr"),
    "csc row too large": (broken("csc", indices=[0, 2, 1, 0, 2, 9]), "csc"),
    "csc row negative": (broken("csc", indices=[0, 2, 1, 0, -5, 3]), "csc"),
    "csc indptr decreases": (broken("csc", indptr=[0, 3, 2, 6]), "csc"),
    "csc indptr ends late": (broken("csc", indptr=[0, 2, 3, 60]), "csc"),
    "coo row too large": (broken("coo", row=[0, 0, 1, 2, 2, 9]), "coo"),
    "coo row negative": (broken("coo", row=[0, 0, 1, 2, -2, 3]), "coo"),
    "coo column too large": (broken("coo", col=[0, 2, 1, 0, 2, 3]), "coo"),
    "coo column negative": (broken("coo", col=[0, 2, 1, 0, 2, -1]), "coo"),
    "coo fewer rows": (broken("coo", row=[0, 0, 1]), "coo"),
    "bsr column too large": (broken("bsr", indices=[0, 2, 1, 0, 2, 7]), "bsr"),
    "bsr indptr decreases": (broken("bsr", indptr=[0, 2, 1, 5, 6]), "bsr"),
}


def outcome(call):
    """What a call ends with, seen from outside of its process: an error, or a signal."""

    def program():
        try:
            call()
            sys.stdout.write("accepted")
        except Exception as error:
            sys.stdout.write(f"{type(error).__name__}: {error}")

    done = forked(program)
    status = done.returncode
    return f"killed by signal {-status}" if status < 0 else done.stdout.decode()


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_fit(matrix, named):
    ended = outcome(lambda: fit(matrix, n_threads=1))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_predict(matrix, named):
    km = fit(X, n_threads=1)
    ended = outcome(lambda: km.predict(matrix))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_seeding(matrix, named):
    ended = outcome(lambda: kmeans_plusplus(matrix, 2, n_threads=1))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize("matrix", [matrix for matrix, _ in BROKEN.values()], ids=BROKEN)
def test_inconsistent_matrix_is_refused_as_centers(matrix):
    ended = outcome(lambda: fit(X, 4, init=matrix, n_threads=1))
    assert re.match("ValueError: init is not a consistent", ended), ended


@pytest.mark.parametrize("number", [np.float32, np.int64])
def test_broken_matrix_of_another_number_type_is_refused(number):
    matrix = broken(indices=[0, 2, 1, 0, 2, 7])
    matrix.data = matrix.data.astype(number)
    with pytest.raises(ValueError, match="row 3"):
        fit(matrix)


def test_wide_indices_out_of_range_are_refused():
    matrix = csr(X, index=np.int64)
    matrix.indices[4] = 2**40
    with pytest.raises(ValueError, match="row 1"):
        fit(matrix)


NASTY = {
    "all kinds of broken CSR arrays": """
        rng = np.random.default_rng(0)
        for trial in range(150):
            M = sp.random(30, 20, 0.2, format="csr", random_state=trial, dtype=np.float64)
            part = rng.choice(["indices", "indptr", "data"])
            array = getattr(M, part)
            bad = [np.nan, np.inf, 1e300] if part == "data" else [-1, 10**9, -(2**31), 2**31 - 1]
            array[rng.integers(len(array))] = rng.choice(bad)
            for call in (KMeans(3).fit, km.predict, partial(kmeans_plusplus, n_clusters=3)):
                try:
                    call(M)
                    raise SystemExit(f"accepted: {trial} {part}")
                except ValueError:
                    pass
    """,
    "many threads": "KMeans(3, n_threads=300).fit(np.random.default_rng(0).random((5000, 4)))",
    "a change of the matrix in the callback": """
        X = sp.random(200, 50, 0.2, format="csr", random_state=0)
        def vandal(record):
            X.data[:] = np.nan
        try:
            KMeans(5, callback=vandal, max_iter=5).fit(X)
        except ValueError:
            pass
    """,
    "an unknown SIMD level": """
        import os
        os.environ["SPARSECLUSTER_SIMD"] = "sse9"
        try:
            KMeans(2).fit(np.eye(4))
            raise SystemExit("accepted")
        except RuntimeError as error:
            assert "sse9" in str(error) and "avx2" in str(error), error
    """,
    "fits in forked processes": """
        import multiprocessing as mp
        KMeans(3, n_threads=2).fit(np.random.default_rng(0).random((5000, 4)))
        with mp.get_context("fork").Pool(2) as pool:
            X = np.random.default_rng(0).random((2000, 4))
            labels = pool.map(KMeans(3, n_threads=2, random_state=0).fit_predict, [X] * 4)
        assert all((one == labels[0]).all() for one in labels)
    """,
    "fits in threads at the same time": """
        from concurrent.futures import ThreadPoolExecutor
        X = np.random.default_rng(0).random((3000, 6))
        def labels(seed):
            return KMeans(8, n_threads=2, random_state=0).fit_predict(X)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(labels, range(8)))
        assert all((one == found[0]).all() for one in found)
    """,
}


@pytest.mark.parametrize("code", NASTY.values(), ids=NASTY)
def test_process_survives(code):
    names = {"np": np, "sp": sp, "KMeans": KMeans, "kmeans_plusplus": kmeans_plusplus}
    names |= {"partial": partial, "km": fit(np.random.default_rng(0).random((9, 20)), 3)}

    def program():
        warnings.simplefilter("ignore")
        exec(textwrap.dedent(code), names)

    done = forked(program)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.uint64, np.uint32, np.int16])
@pytest.mark.parametrize("key", ["indptr", "indices"])
def test_indices_of_any_integer_type_are_taken(format, dtype, key, recwarn):
    odd = sp.csr_array(X).asformat(format)
    setattr(odd, key, getattr(odd, key).astype(dtype))
    assert fit(odd).labels_.tolist() == fit(X).labels_.tolist()
    assert Prepare(norm="l2").fit_transform(odd).shape == X.shape
    assert seed_centers(odd, 2, random_state=0)[0].shape == (2, X.shape[1])
    assert not recwarn.list


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_an_indptr_that_wrapped_around_is_refused(format):
    many = sp.random_array((300, 50), density=0.2, format=format, rng=np.random.default_rng(0))
    many.indptr = many.indptr.astype(np.uint8)
    with pytest.raises(ValueError, match="consistent"):
        fit(many)


def test_indices_that_are_no_integers_are_refused():
    odd = sp.csr_array(X)
    odd.indices = odd.indices.astype(np.float64)
    with pytest.raises(ValueError, match="The indices of X are of float64"):
        fit(odd)
