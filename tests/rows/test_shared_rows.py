"""Rows never change: whatever shares them, at once or in turns, gives what it gives alone."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans, read, seed_centers
from sparsecluster._core import ALGORITHMS


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    X = sp.random_array((3000, 60), density=0.15, rng=rng, format="csr", dtype=np.float32)
    return X[np.diff(X.indptr) > 0]


@pytest.fixture(scope="module")
def path(matrix, tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "x.npz"
    sp.save_npz(path, sp.csr_matrix(matrix))
    return path


@pytest.fixture(scope="module")
def far(matrix):
    """A model whose centers lie far outside of the rows."""
    return KMeans(3, random_state=0).fit(matrix * 100)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_predict_from_far_centers_in_a_callback_changes_nothing(path, far, matrix, algorithm):
    rows = read(path)

    def callback(record):
        far.predict(rows)

    fit = KMeans(20, algorithm=algorithm, random_state=1, callback=callback).fit(rows)
    assert np.array_equal(fit.labels_, KMeans(20, random_state=1).fit(matrix).labels_)


WORK = {
    **{
        f"fit {algorithm}": lambda rows, far, algorithm=algorithm: KMeans(
            20, algorithm=algorithm, random_state=1
        ).fit_predict(rows)
        for algorithm in ALGORITHMS
    },
    "fit by cosine": lambda rows, far: SphericalKMeans(12, random_state=1).fit_predict(rows),
    "fit from far centers": lambda rows, far: KMeans(
        3, init=far.cluster_centers_, random_state=1
    ).fit_predict(rows),
    "fit nested batches": lambda rows, far: MiniBatchKMeans(
        10, batch_size=100, random_state=1
    ).fit_predict(rows),
    "predict": lambda rows, far: far.predict(rows),
    "transform": lambda rows, far: far.transform(rows),
    "score": lambda rows, far: far.score(rows),
    "seed": lambda rows, far: seed_centers(rows, 30, random_state=2)[1],
    "report": lambda rows, far: _report(rows, far),
}


def _report(rows, far):
    return far.report(rows=rows).html


@pytest.fixture(scope="module")
def alone(path, far):
    return {name: work(read(path), far) for name, work in WORK.items()}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ALGORITHMS), st.lists(st.sampled_from(sorted(WORK)), max_size=4)),
        min_size=1,
        max_size=3,
    )
)
def test_any_interleaving_on_shared_rows_equals_one_after_another(path, far, alone, jobs):
    """Threads that each fit the same rows, and do other work on them after each iteration."""
    rows, found = read(path), {}

    def run(at, algorithm, others):
        results, left = [], list(others)

        def callback(record):
            if left:
                name = left.pop()
                results.append((name, WORK[name](rows, far)))

        fit = KMeans(20, algorithm=algorithm, random_state=1, callback=callback).fit(rows)
        found[at] = [("fit lloyd", fit.labels_), *results]

    threads = [threading.Thread(target=run, args=(at, *job)) for at, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(jobs)
    for results in found.values():
        for name, result in results:
            assert np.array_equal(result, alone[name]), name
