"""Every way to start: what it promises, its distribution, its options; the same for any threads."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import chisquare
from sklearn.exceptions import ConvergenceWarning
from support.data import csr, dense, problem, weights_for

from sparsecluster import KMeans, SphericalKMeans, convert, seed_centers
from sparsecluster.kmeans.seeding.registry import METHODS
from sparsecluster.run.local import LocalExecutor

ROWS = {"k-means++", "plain-k-means++", "spkm++", "mcmc", "k-means||", "oversample", "random"}
CASES = [
    (method, metric)
    for method in METHODS
    for metric in ("euclidean", "cosine")
    if (method, metric) != ("spkm++", "euclidean")
]


def rows_of(name, metric="euclidean"):
    X, _ = problem(name)
    X = X[np.any(X, axis=1)]
    return X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
@pytest.mark.parametrize(("method", "metric"), CASES)
def test_start_has_as_many_centers_as_asked_for(method, metric, make):
    X = rows_of("text", metric)
    centers, indices = seed_centers(make(X), 12, method, metric=metric, random_state=0)
    assert centers.shape == (12, X.shape[1])
    assert sp.issparse(centers) == (make is csr)
    assert np.isfinite(dense(centers)).all()
    assert (indices is not None) == (method in ROWS)
    if indices is not None:
        np.testing.assert_array_equal(dense(centers), X[indices])
    if metric == "cosine":
        np.testing.assert_allclose(np.linalg.norm(dense(centers), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize(("method", "metric"), CASES)
def test_start_is_the_same_for_a_seed_and_any_threads(method, metric, weighted):
    X = csr(rows_of("text", metric))
    weights = weights_for(X.shape[0]) if weighted else None
    found = [
        dense(
            seed_centers(
                X, 15, method, metric=metric, sample_weight=weights, random_state=seed,
                n_threads=threads,
            )[0]
        )
        for seed, threads in ((3, 1), (3, 2), (3, 4), (4, 2))
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    # Nothing is drawn by the first, nor by the second where the sample holds all rows.
    if method not in ("furthest-first", "hierarchical"):
        assert not np.array_equal(found[0], found[3])


@pytest.mark.parametrize(("method", "metric"), CASES)
def test_fit_may_start_by_every_name(method, metric):
    X = csr(rows_of("text", metric))
    estimator = {"euclidean": KMeans, "cosine": SphericalKMeans}[metric]
    km = estimator(10, init=method, random_state=0).fit(X)
    assert len(np.unique(km.labels_)) == 10
    np.testing.assert_array_equal(km.predict(X), km.labels_)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"spkm++"}))
def test_rows_of_zero_weight_are_never_chosen(method):
    X = rows_of("text")
    weights = np.ones(len(X))
    weights[::2] = 0
    for seed in range(5):
        _, indices = seed_centers(csr(X), 9, method, sample_weight=weights, random_state=seed)
        assert indices is None or (weights[indices] > 0).all()


@pytest.mark.parametrize(
    "method", sorted(set(METHODS) - {"spkm++", "mcmc", "random", "oversample"})
)
def test_fewer_distinct_rows_than_clusters_are_survived(method):
    X = csr(np.repeat(np.eye(4), 5, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        km = KMeans(7, init=method, random_state=0).fit(X)
    assert km.n_clusters_ == 4
    assert km.inertia_ == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("executor", [None, LocalExecutor(2)], ids=["here", "workers"])
@pytest.mark.parametrize("method", ["k-means++", "furthest-first", "bisecting", "hierarchical"])
def test_seeds_that_are_too_few_are_told_without_a_clustering(tmp_path, method, executor):
    sp.save_npz(tmp_path / "x.npz", csr(np.repeat(np.eye(4), 5, axis=0)))
    X = convert(tmp_path / "x.npz", tmp_path / "x.store")
    with pytest.warns(ConvergenceWarning) as caught:
        centers, _ = seed_centers(X, 7, method, random_state=0, executor=executor)
    found = centers.shape[0]
    assert found < 7
    assert [str(one.message) for one in caught] == [
        f"Found only {found} of 7 centers: X has too few distinct rows for '{method}'."
    ]


# --- distributions -------------------------------------------------------------------------------


SMALL = np.array(
    [[4.0, 0, 0], [0, 1.0, 0], [0, 2.0, 1.0], [3.0, 0, 1.0], [0, 0, 2.0], [1.0, 1.0, 1.0]]
)


def pairs(method, n_draws=1500, **options):
    """How often each row follows each first row."""
    counts = np.zeros((len(SMALL), len(SMALL)))
    state = np.random.RandomState(7)
    X = csr(SMALL)
    for _ in range(n_draws):
        first, second = seed_centers(X, 2, method, random_state=state, n_threads=1, **options)[1]
        counts[first, second] += 1
    return counts


def chances(metric):
    if metric == "euclidean":
        return cdist(SMALL, SMALL, "sqeuclidean")
    unit = SMALL / np.linalg.norm(SMALL, axis=1, keepdims=True)
    return 1.5 - unit @ unit.T


def p_values(counts, chance):
    for seen, expected in zip(counts, chance, strict=True):
        possible = expected > 0
        assert seen[~possible].sum() == 0
        share = expected[possible] / expected[possible].sum()
        yield chisquare(seen[possible], share * seen.sum()).pvalue


@pytest.mark.parametrize(
    ("method", "metric", "options"),
    [
        ("plain-k-means++", "euclidean", {}),
        pytest.param("plain-k-means++", "cosine", {}, marks=pytest.mark.slow),
        ("spkm++", "cosine", {}),
        pytest.param("mcmc", "euclidean", {"chain_length": 200}, marks=pytest.mark.slow),
        pytest.param("mcmc", "cosine", {"chain_length": 200}, marks=pytest.mark.slow),
    ],
)
def test_second_row_follows_the_stated_distribution(method, metric, options):
    counts = pairs(method, metric=metric, **options)
    by_cosine = metric == "cosine" and method != "plain-k-means++"
    chance = chances("cosine" if by_cosine else "euclidean")
    if metric == "cosine" and not by_cosine:
        chance = 2 * (chances("cosine") - 0.5)
        np.fill_diagonal(chance, 0)
    assert min(p_values(counts, chance)) > 1e-4


@pytest.mark.slow
def test_chains_come_nearer_to_the_distribution_as_they_grow():
    chance = chances("euclidean")
    share = chance / chance.sum(axis=1, keepdims=True)
    distance = []
    for length in (1, 5, 100):
        counts = pairs("mcmc", chain_length=length)
        seen = counts / counts.sum(axis=1, keepdims=True)
        distance.append(np.abs(seen - share).sum(axis=1).mean())
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 0.1


# --- what single methods promise -----------------------------------------------------------------


def test_furthest_first_is_the_mean_and_then_the_farthest_rows():
    X = rows_of("text")
    centers, _ = seed_centers(csr(X), 6, "furthest-first")
    chosen = [X.mean(axis=0)]
    while len(chosen) < 6:
        chosen.append(X[np.argmax(cdist(X, chosen).min(axis=1))])
    np.testing.assert_allclose(dense(centers), chosen, atol=1e-12)


def test_oversampled_rows_lie_apart():
    X = rows_of("unit")
    apart = [cdist(c, c)[np.triu_indices(10, 1)].min() for c in (
        dense(seed_centers(csr(X), 10, method, random_state=0)[0])
        for method in ("oversample", "random")
    )]  # fmt: skip
    assert apart[0] > apart[1]


@pytest.mark.parametrize("method", ["bisecting", "hierarchical", "k-means||", "k-means++"])
def test_careful_starts_cost_less_than_random_ones(method):
    X = rows_of("unit")
    cost = {}
    for name in (method, "random"):
        found = [dense(seed_centers(csr(X), 12, name, random_state=s)[0]) for s in range(10)]
        cost[name] = np.mean([cdist(X, c, "sqeuclidean").min(axis=1).sum() for c in found])
    assert cost[method] < cost["random"]


# --- options -------------------------------------------------------------------------------------


def test_options_reach_the_method():
    X = csr(rows_of("text"))
    common = {"init": "mcmc", "max_iter": 1, "tol": 1e9, "random_state": 0}
    short, long = (
        KMeans(8, init_options={"chain_length": m}, **common).fit(X).cluster_centers_
        for m in (1, 200)
    )
    assert not np.array_equal(dense(short), dense(long))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"init": "mcmc", "init_options": {"steps": 5}},
            "'steps' is not .* chain_length",
        ),
        ({"init": "random", "init_options": {"rounds": 5}}, "takes no options"),
        ({"init": "mcmc", "init_options": {"chain_length": 0}}, "at least 1"),
        ({"init": "mcmc", "init_options": {"chain_length": 2.5}}, "an integer"),
        ({"init": "mcmc", "init_options": {"chain_length": 10**30}}, "at most"),
        ({"init": "k-means||", "init_options": {"oversampling": np.nan}}, "a number"),
        ({"init": "k-means||", "init_options": {"oversampling": np.inf}}, "finite"),
        ({"init": "oversample", "init_options": {"oversampling": 0}}, "positive"),
        ({"init": "mcmc", "init_options": [5]}, "must be a dict"),
        ({"init": np.eye(2), "init_options": {"rounds": 2}}, "no effect"),
        ({"init": "spkm++"}, "needs metric=.cosine"),
        ({"init": "kmeans"}, "init"),
    ],
)
def test_bad_options_are_refused_before_the_work(options, message):
    with pytest.raises(ValueError, match=message):
        KMeans(2, **options).fit(np.eye(2))


def test_sample_that_does_not_fit_is_refused():
    X = csr(rows_of("text"))
    with pytest.raises(ValueError, match="sample_size"):
        seed_centers(X, 3, "hierarchical", memory_limit=10_000)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"spkm++"}))
def test_rows_that_are_all_equal_are_survived(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert KMeans(2, init=method, random_state=0).fit(np.ones((5, 2))).n_clusters_ == 1


def test_more_candidates_than_memory_has_room_for_are_refused():
    X = csr(rows_of("text"))
    with pytest.raises(ValueError, match=r"n_local_trials=1000000000 needs 16 GB"):
        seed_centers(X, 3, random_state=0, n_local_trials=10**9, memory_limit="1GB")
