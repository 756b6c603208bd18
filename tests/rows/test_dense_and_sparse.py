"""A matrix gives the same bits dense, sparse, or sparse with zeros that are stored."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans

FITS = {
    "auto": lambda k: KMeans(k, random_state=1),
    "hamerly": lambda k: KMeans(k, algorithm="hamerly", random_state=1),
    "elkan": lambda k: KMeans(k, algorithm="elkan", random_state=1),
    "restarts": lambda k: KMeans(k, init="random", n_init=2, random_state=1),
    "furthest-first": lambda k: KMeans(k, init="furthest-first", random_state=1),
    "bisecting": lambda k: KMeans(k, init="bisecting", random_state=1),
    "mcmc": lambda k: KMeans(k, init="mcmc", random_state=1),
    "refined": lambda k: KMeans(k, refine="first-variation", random_state=1),
    "cosine": lambda k: SphericalKMeans(k, zero_rows="first", random_state=1),
    "nested": lambda k: MiniBatchKMeans(k, batch_size=10, random_state=1),
    "sculley": lambda k: MiniBatchKMeans(k, batch_size=10, schedule="sculley", random_state=1),
}


@st.composite
def matrices(draw):
    """Values whose magnitudes lie far apart: by row, by column, or anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(5, 60)), draw(st.integers(1, 20))
    X = rng.normal(size=shape) * (rng.random(shape) < draw(st.floats(0.05, 1)))
    spread = {"row": (shape[0], 1), "column": (1, shape[1]), "entry": shape, "none": (1, 1)}
    X *= 10.0 ** rng.uniform(-10, 10, size=spread[draw(st.sampled_from(sorted(spread)))])
    weights = 10.0 ** rng.uniform(-3, 3, size=shape[0]) if draw(st.booleans()) else None
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), weights


def with_stored_zeros(X):
    stored = sp.csr_array(np.ones_like(X))
    stored.data = X.ravel().copy()
    return stored


def outcome(fit, k, X, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            km = fit(k).fit(X, sample_weight=weights)
        except ValueError as error:
            return str(error)
    centers = sp.csr_array(km.cluster_centers_).toarray()
    return km.labels_.tolist(), km.inertia_, km.n_iter_, centers.tolist()


@pytest.mark.parametrize("name", FITS)
@settings(max_examples=30, deadline=None)
@given(problem=matrices(), k=st.integers(1, 5))
def test_dense_and_sparse_rows_give_the_same_bits(name, problem, k):
    X, weights = problem
    expected = outcome(FITS[name], k, X, weights)
    assert outcome(FITS[name], k, sp.csr_array(X), weights) == expected
    assert outcome(FITS[name], k, with_stored_zeros(X), weights) == expected
