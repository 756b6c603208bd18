"""What the paper promises, on real data: costs of partitions, and of clusterings by way of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, Prepare, SparseEmbedding
from sparsecluster.embedding.rule import embedding_error

SETS = ("sector", "kos", "bbc", "classic3")
K, EPS, DELTA = 20, 0.5, 0.1


@pytest.fixture
def rows(real_data):
    return lambda name: Prepare(norm="l2", dtype="float64").fit_transform(real_data(name))


def costs(X, labels):
    """Cost of each partition, by its sums."""
    found = []
    for one in labels:
        members = sp.csr_array((np.ones(len(one)), (one, np.arange(len(one)))))
        sums = members @ X
        squares = np.asarray((sums.multiply(sums) if sp.issparse(sums) else sums**2).sum(axis=1))
        found.append((squares.ravel() / np.maximum(np.bincount(one), 1)).sum())
    return (X.multiply(X) if sp.issparse(X) else X**2).sum() - np.array(found)


def partitions(X, n_random, n_kmeans):
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, K, size=X.shape[0]) for _ in range(n_random)]
    return drawn + [KMeans(K, random_state=seed).fit(X).labels_ for seed in range(n_kmeans)]


def share_kept(X, labels, n_sketches):
    """The share of sketches that keep the costs of all partitions within 1 +- e' (Definition 2)."""
    true, kept = costs(X, labels), []
    for seed in range(n_sketches):
        rule = SparseEmbedding(n_clusters=K, eps=EPS, delta=DELTA, random_state=seed)
        ratios = costs(rule.fit_transform(X), labels) / true
        kept.append(np.all(np.abs(ratios - 1) <= embedding_error(EPS)))
    return np.mean(kept)


def test_costs_of_some_partitions_are_kept(rows):
    X = rows("kos")
    assert share_kept(X, partitions(X, 5, 2), 5) >= 1 - DELTA


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_costs_of_partitions_are_kept(rows, name):
    X = rows(name)
    assert share_kept(X, partitions(X, 200, 20), 50) >= 1 - DELTA


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_finished_clusterings_cost_what_plain_ones_cost(rows, name):
    X = rows(name)  # small: from one seed to the next the cost of plain k-means varies by 0.2%
    plain, embedded = (
        np.mean([KMeans(K, random_state=seed, embedding=one).fit(X).inertia_ for seed in range(20)])
        for one in (None, 1000)
    )
    assert embedded <= 1.002 * plain
