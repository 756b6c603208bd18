"""Later seeds of k-means++, whose candidates are drawn in pools: against a plain reference of them,
and by the chances that they are drawn with. Pools begin after a few seeds here."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import chisquare
from support.data import NAMES, csr, problem, weights_for

from sparsecluster import _core, kmeans_plusplus
from sparsecluster.kmeans.seeding import shared
from sparsecluster.rows.rows import as_rows

MASK = 2**64 - 1


class Splitmix:
    """The generator of the core (Steele et al. 2014)."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def reference(X, n_clusters, first, draws, n_single, seed, weights, floor):
    """All distances of all rows, and candidates one by one."""
    trials = draws.shape[1]
    distances = cdist(X, X, "sqeuclidean")
    seeds, nearest = [first], distances[first].copy()
    random, pool = Splitmix(seed), []

    def row_at(part, chances):
        return int(np.searchsorted(np.cumsum(chances), part * chances.sum(), side="right"))

    def proposal(chances):
        """The next of the pool that is taken, of a new pool where it is used up."""
        while True:
            if not pool:
                steps = min(n_clusters - len(seeds), max(1, len(seeds) // 4))
                for _ in range(min(steps * trials + 64, 8192)):
                    row = row_at(random.uniform(), chances)
                    pool.append((row, random.uniform() * chances[row]))
            row, least = pool.pop(0)
            if least < chances[row]:
                return row

    while len(seeds) < n_clusters:
        chances = weights * (nearest + floor)
        if not chances.sum() > 0:
            break
        if len(seeds) < n_single:
            rows = {row_at(part, chances) for part in draws[len(seeds) - 1]}
        else:
            rows = {proposal(chances) for _ in range(trials)}
        left = {row: weights @ np.minimum(nearest, distances[row]) for row in sorted(rows)}
        seeds.append(min(left, key=left.get))
        nearest = np.minimum(nearest, distances[seeds[-1]])
    return seeds


def found(
    rows, n_clusters, first, draws, n_single, seed, weights, floor, *, limit=2**40, threads=2
):
    core = rows if isinstance(rows, _core.Rows) else as_rows(rows, n_threads=1).core
    indices, _ = _core.greedy_kmeans_plusplus(
        core, n_clusters, first, draws, n_single, seed, weights, floor, limit, threads
    )
    return indices.tolist()


def case(name, n_clusters=25, trials=4, n_single=3, weighted=False, floor=0.0):
    """Rows, and what seeding is told about them."""
    X = problem(name)[0][:120]
    rng = np.random.default_rng(5)
    weights = weights_for(len(X)) if weighted else np.ones(len(X))
    draws = rng.random((n_single - 1, trials))
    first = int(np.flatnonzero(weights)[3])
    return X, (n_clusters, first, draws, n_single, 17, weights, floor)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("floor", [0.0, 0.5])
@pytest.mark.parametrize("name", ["text", "signed", "unit", "blobs"])
def test_seeds_are_those_of_the_reference(name, floor, weighted):
    X, given = case(name, weighted=weighted, floor=floor)
    assert found(csr(X), *given) == reference(X, *given)


@pytest.mark.parametrize("n_single", [1, 2, 10])
@pytest.mark.parametrize("trials", [1, 7])
def test_pools_may_begin_anywhere(n_single, trials):
    X, given = case("text", n_single=n_single, trials=trials)
    assert found(csr(X), *given) == reference(X, *given)


@pytest.mark.parametrize("name", NAMES)
def test_neither_threads_nor_memory_nor_files_nor_layout_change_seeds(name):
    X, given = case(name)
    expected = found(csr(X), *given)
    assert found(csr(X), *given, threads=1) == expected
    assert found(csr(X), *given, limit=1) == expected
    matrix = csr(X)
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    streamed = _core.Rows.sparse(indptr, indices, matrix.data, X.shape[1], 1024, X.shape[1])
    assert streamed.inspect(1)[0] == "none"
    assert found(streamed, *given) == expected
    assert found(np.array(X), *given) == expected


def test_all_distinct_rows_are_found(monkeypatch):
    monkeypatch.setattr(shared, "SINGLE_STEPS", 2)
    X = np.repeat(np.random.default_rng(0).random((12, 3)), 3, axis=0)
    with pytest.warns(match="Found only 12 of 15 centers"):
        _, indices = kmeans_plusplus(csr(X), 15, random_state=0)
    assert len(np.unique(X[indices], axis=0)) == 12


@pytest.mark.parametrize("value", [1e100, 1e-100])
def test_huge_and_tiny_rows_are_chosen_alike(value, monkeypatch):
    monkeypatch.setattr(shared, "SINGLE_STEPS", 2)
    X, _ = problem("unit")
    _, indices = kmeans_plusplus(csr(X), 30, random_state=0)
    _, scaled = kmeans_plusplus(csr(X * 2.0 ** np.round(np.log2(value))), 30, random_state=0)
    np.testing.assert_array_equal(scaled, indices)


def test_later_rows_are_drawn_by_squared_distance(monkeypatch):
    # The third row comes from the pool that the second one was drawn from, by other distances.
    monkeypatch.setattr(shared, "SINGLE_STEPS", 1)
    X = np.array([[0.0, 0], [1, 0], [0, 2], [3, 1], [2, 3]])
    distances = cdist(X, X, "sqeuclidean")
    random_state = np.random.RandomState(0)
    seen, expected = np.zeros((2, 5, 5, 5))
    for _ in range(4000):
        _, (a, b, c) = kmeans_plusplus(
            sp.csr_array(X), 3, random_state=random_state, n_local_trials=1, n_threads=1
        )
        seen[a, b, c] += 1
    for a, b in np.ndindex(5, 5):
        nearest = np.minimum(distances[a], distances[b])
        chance = distances[a, b] / distances[a].sum() / 5
        expected[a, b] = 4000 * chance * nearest / nearest.sum()
    possible = expected > 0
    assert not seen[~possible].any()
    assert chisquare(seen[possible], expected[possible]).pvalue > 1e-3


def test_few_clusters_are_seeded_as_if_there_were_no_pools(monkeypatch):
    X = csr(problem("text")[0])
    _, indices = kmeans_plusplus(X, 20, random_state=3)
    monkeypatch.setattr(shared, "SINGLE_STEPS", 20)
    np.testing.assert_array_equal(kmeans_plusplus(X, 20, random_state=3)[1], indices)
