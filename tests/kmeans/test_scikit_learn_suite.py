"""scikit-learn's own tests of k-means, as they are installed, with our classes in place of its.

Two things stand between: centers of sparse rows, which are CSR here, are compared as arrays, and
`_init_centroids`, which scikit-learn has on its classes, is `seed_centers`. Tests of functions that
are private to scikit-learn say nothing of ours and are left out; each other test that fails is an
exception below, with its reason. One that passes again must leave the list.
"""

import importlib.util
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.cluster

import sparsecluster

MODULE = "sklearn.cluster.tests.test_k_means"

# Run the code of scikit-learn, whatever class is put in its place.
PRIVATE = {
    "test_relocate_empty_clusters",
    "test_minibatch_update_consistency",
    "test_minibatch_reassign",
    "test_euclidean_distance",
    "test_inertia",
    "test_is_same_clustering",
}

EXCEPTIONS = {
    "test_float_precision": "centers are float64, so that predict(X) repeats labels_",
    "test_minibatch_kmeans_init_size": "MiniBatchKMeans seeds from 4 batches, not from 3",
    "test_minibatch_declared_convergence": "nested batches have another rule of convergence",
    "test_minibatch_iter_steps": "nested batches grow, so n_iter_ is not a number of passes",
}


def dense(centers):
    return centers.toarray() if sp.issparse(centers) else centers


def kmeans_plusplus(*args, **options):
    centers, indices = sparsecluster.kmeans_plusplus(*args, **options)
    return dense(centers), indices


def init_centroids(self, X, x_squared_norms, init, random_state, sample_weight, n_centroids):
    options = {"sample_weight": sample_weight, "random_state": random_state}
    return dense(sparsecluster.seed_centers(X, n_centroids, init, **options)[0])


def load_suite():
    """The module of scikit-learn, executed with our names in the place of its."""
    try:
        spec = importlib.util.find_spec(MODULE)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip("this scikit-learn comes without its tests", allow_module_level=True)
    suite = importlib.util.module_from_spec(spec)
    with mock.patch.multiple(
        sklearn.cluster,
        KMeans=sparsecluster.KMeans,
        MiniBatchKMeans=sparsecluster.MiniBatchKMeans,
        kmeans_plusplus=kmeans_plusplus,
    ):
        spec.loader.exec_module(suite)
    assert_allclose = suite.assert_allclose
    suite.assert_allclose = lambda actual, desired, *args, **options: assert_allclose(
        dense(actual), dense(desired), *args, **options
    )
    return suite


SUITE = load_suite()
TESTS = {name: test for name, test in vars(SUITE).items() if name.startswith("test_")}
for name, reason in EXCEPTIONS.items():
    if name in TESTS:
        TESTS[name] = pytest.mark.xfail(reason=reason)(TESTS[name])
globals().update({name: test for name, test in TESTS.items() if name not in PRIVATE})


@pytest.fixture(autouse=True)
def in_place_of_theirs(monkeypatch):
    """What the tests reach by another way than the names of their module; draws that repeat."""
    np.random.seed(0)  # noqa: NPY002 - what they draw from
    monkeypatch.setattr("sklearn.cluster._kmeans.KMeans", sparsecluster.KMeans)  # for k_means
    monkeypatch.setattr(sparsecluster.KMeans, "_init_centroids", init_centroids, raising=False)


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param


@pytest.mark.parametrize("kind", ["KMeans", "MiniBatchKMeans"])
def test_every_parameter_of_theirs_is_accepted_with_its_default(kind):
    theirs = getattr(sklearn.cluster, kind)().get_params()
    ours = getattr(sparsecluster, kind)(**theirs).fit(SUITE.X)
    assert ours.get_params().items() >= theirs.items()


def test_no_patience_at_all_ends_with_the_second_batch_as_theirs_does():
    options = {"batch_size": 10, "max_no_improvement": 0, "random_state": 0, "tol": 0.0}
    ours = sparsecluster.MiniBatchKMeans(3, schedule="sculley", **options).fit(SUITE.X)
    theirs = sklearn.cluster.MiniBatchKMeans(3, **options).fit(SUITE.X)
    assert ours.n_steps_ == theirs.n_steps_ == 2
