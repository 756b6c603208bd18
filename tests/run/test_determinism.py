"""The same bits for every algorithm, thread count, SIMD level and repetition."""

import numpy as np
import pytest
from support.data import LAYOUTS, problem, weights_for
from support.levels import LEVELS
from support.marks import covering

from sparsecluster import KMeans, kmeans_plusplus
from sparsecluster._core import ALGORITHMS

CASES = {
    "unit": (20, "float32", "int32", False),
    "many": (140, "float32", "int64", False),
    "signed": (9, "float64", "int32", True),
    "binary": (12, "float64", "int64", False),
    "blobs": (7, "float64", "dense", True),
    "grid": (10, "float32", "dense", False),
}


def arrays(name):
    """A data set, its number of clusters and its weights."""
    n_clusters, dtype, layout, weighted = CASES[name]
    X, _ = problem(name, dtype)
    return LAYOUTS[layout](X, dtype), n_clusters, weights_for(len(X)) if weighted else None


def results(name, **options):
    """Labels, centers and inertia, as bytes."""
    X, n_clusters, weights = arrays(name)
    km = KMeans(n_clusters, random_state=3, n_init=2, **options).fit(X, sample_weight=weights)
    centers = km.cluster_centers_
    if not isinstance(centers, np.ndarray):
        centers = np.concatenate([centers.indptr, centers.indices, centers.data])
    return km.labels_.tobytes(), centers.tobytes(), km.inertia_


@pytest.fixture(scope="module")
def reference():
    """One thread, no SIMD beyond the baseline, plain Lloyd."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARSECLUSTER_SIMD", "base")
        return {name: results(name, algorithm="lloyd", n_threads=1) for name in CASES}


@covering(strength=3, name=list(CASES), algorithm=ALGORITHMS, n_threads=[1, 2, 3], simd=LEVELS)
def test_fit_gives_the_same_bits(
    name, algorithm, n_threads, simd, reference, threads_for_little_work
):
    assert results(name, algorithm=algorithm, n_threads=n_threads) == reference[name]


@pytest.mark.parametrize("name", CASES)
def test_fit_gives_the_same_bits_when_repeated(name):
    assert results(name) == results(name)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_history_does_not_depend_on_threads(algorithm, threads_for_little_work):
    X, n_clusters, _ = arrays("many")
    runs = [
        KMeans(n_clusters, random_state=0, algorithm=algorithm, n_threads=n).fit(X).history_
        for n in (1, 3)
    ]
    one, three = ([(r.cost, r.shift, r.moved) for r in run] for run in runs)
    assert one == three


@covering(name=list(CASES), n_threads=[1, 2, 3, 8], simd=LEVELS)
def test_seeding_chooses_the_same_rows(name, n_threads, simd, threads_for_little_work):
    X, n_clusters, weights = arrays(name)
    chosen = [
        kmeans_plusplus(X, n_clusters, sample_weight=weights, random_state=1, n_threads=n)[1]
        for n in (1, n_threads)
    ]
    np.testing.assert_array_equal(*chosen)


@pytest.mark.parametrize("name", CASES)
def test_seeding_chooses_the_same_rows_when_repeated(name):
    X, n_clusters, weights = arrays(name)
    chosen = [
        kmeans_plusplus(X, n_clusters, sample_weight=weights, random_state=1)[1] for _ in range(2)
    ]
    np.testing.assert_array_equal(*chosen)


@pytest.mark.parametrize("method", ["transform", "predict", "score"])
def test_fitted_model_gives_the_same_bits_on_any_threads(method, simd, threads_for_little_work):
    X, n_clusters, _ = arrays("many")
    km = KMeans(n_clusters, random_state=0).fit(X)
    one = getattr(km.set_params(n_threads=1), method)(X)
    three = getattr(km.set_params(n_threads=3), method)(X)
    assert np.asarray(one).tobytes() == np.asarray(three).tobytes()
