"""scikit-learn's own tests of BisectingKMeans, as they are installed, with our class in its place.

Centers of sparse rows, which are CSR here, are compared as arrays. Each test that fails is an
exception below, with its reason; one that passes again must leave the list.
"""

import importlib.util
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.cluster

import sparsecluster

MODULE = "sklearn.cluster.tests.test_bisect_k_means"

EXCEPTIONS = {
    ("test_dtype_preserved", "float32"): "centers are float64, so that predict(X) repeats labels_",
    ("test_bisecting_kmeans_custom_init_validation", ""): "init is a name: the core draws seeds",
}


def dense(centers):
    return centers.toarray() if sp.issparse(centers) else centers


def load_suite():
    """The module of scikit-learn, executed with our class in the place of its."""
    try:
        spec = importlib.util.find_spec(MODULE)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip("this scikit-learn comes without its tests", allow_module_level=True)
    suite = importlib.util.module_from_spec(spec)
    with mock.patch.object(sklearn.cluster, "BisectingKMeans", sparsecluster.BisectingKMeans):
        spec.loader.exec_module(suite)
    assert_allclose = suite.assert_allclose
    suite.assert_allclose = lambda actual, desired, *args, **options: assert_allclose(
        dense(actual), dense(desired), *args, **options
    )
    return suite


SUITE = load_suite()
globals().update({name: test for name, test in vars(SUITE).items() if name.startswith("test_")})


@pytest.fixture(autouse=True)
def known_exceptions(request):
    for (name, part), reason in EXCEPTIONS.items():
        if request.node.originalname == name and part in request.node.name:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param
