"""Every public estimator, as the contract suite sees it. A new one joins by an entry in ESTIMATORS.

An entry says what the estimator offers, and so which contracts hold for it:

- "predict", "transform", "weights", "names" (`feature_names` of `fit`), "partial_fit", "save"
- "centers": `cluster_centers_` and `labels_`, which are those that `predict` gives
- "callback", "checkpoint", "memory_limit", "threads": it has these parameters
- "cosine": only the directions of the rows count
"""

import copy
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import (
    DBSCAN,
    HDBSCAN,
    AgglomerativeClustering,
    BisectingKMeans,
    ClusterTree,
    KMeans,
    LaplacianScore,
    LeverageSelection,
    MiniBatchKMeans,
    Prepare,
    RandomSigns,
    SparseEmbedding,
    Sparsification,
    SparsifiedKMeans,
    SphericalKMeans,
)
from support.data import csr, dense, text

# --- rows ----------------------------------------------------------------------------------------


def small_rows(n_rows=120, n_features=30, seed=0):
    """A dense float32 array without zero rows, whose last column is in use."""
    X = np.ceil(8 * text(np.random.default_rng(seed), n_rows, n_features)) / 8
    X[~X.any(axis=1), 0] = 1
    X[-1, -1] = 1
    return X.astype(np.float32)


ROWS = small_rows()
ROWS.flags.writeable = False
SPARSE = csr(ROWS, np.float32)
OTHER_ROWS = small_rows(80, 20, seed=1)

# --- the table -----------------------------------------------------------------------------------

N_CLUSTERS = 5
CLUSTERS = {"n_clusters": N_CLUSTERS, "random_state": 0}
COMMON = "predict transform weights names save centers callback memory_limit threads"
# Labels within size bounds are not those that `predict` gives.
BOUNDED = COMMON.replace(" centers", "")
# With copies in place of weights other rows are drawn, so the clusters come in another order.
# scikit-learn's own estimators fail these two as well.
DRAWN_BY_POSITION = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows are drawn by position"
    for kind in ("dense", "sparse")
}


@dataclass(frozen=True)
class Entry:
    """An estimator: its variants by name, what it offers, what scikit-learn checks of it."""

    kind: type
    offers: str
    variants: dict[str, dict[str, Any]]
    checked: list[dict[str, Any]]  # parameters that scikit-learn's checks are run with
    expected_failed: dict[str, str] = field(default_factory=dict)
    # With these parameters neither the order of the rows nor that of their copies matters.
    any_order: dict[str, Any] | None = None
    # Contracts that are known to be broken, by the name of their test, and why.
    broken: dict[str, str] = field(default_factory=dict)


ESTIMATORS = [
    Entry(
        KMeans,
        f"{COMMON} checkpoint",
        {
            "default": CLUSTERS,
            "elkan": CLUSTERS | {"algorithm": "elkan", "n_init": 2},
            "refined": CLUSTERS | {"algorithm": "hamerly", "refine": "first-variation"},
        },
        checked=[{}, {"n_clusters": 3, "algorithm": "elkan", "n_init": 2}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS], "n_init": 1, "refine": None},
    ),
    Entry(
        KMeans,
        f"{COMMON} checkpoint cosine",
        {"cosine": CLUSTERS | {"metric": "cosine"}},
        checked=[{"metric": "cosine", "zero_rows": "first"}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS]},
    ),
    Entry(
        KMeans,
        f"{BOUNDED} checkpoint",
        {"bounded": CLUSTERS | {"size_min": 10, "size_max": 30}},
        checked=[{"n_clusters": 3, "size_max": 1000}],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        KMeans,
        # The embedded rows have to fit into the memory limit.
        f"{COMMON} checkpoint".replace(" memory_limit", ""),
        {
            "embedded": CLUSTERS | {"embedding": 12},
            "embedded, tabled": CLUSTERS
            | {"embedding": SparseEmbedding(9, hashed=False), "n_init": 2, "algorithm": "elkan"},
        },
        checked=[{"n_clusters": 3, "embedding": 4}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS], "n_init": 1},
    ),
    Entry(
        KMeans,
        # The labels are those of the embedded rows.
        f"{BOUNDED} checkpoint".replace(" memory_limit", ""),
        {
            "as embedded": CLUSTERS | {"embedding": 12, "finish": "none"},
            "embedded within bounds": CLUSTERS | {"embedding": 12, "size_min": 10, "size_max": 40},
        },
        checked=[{"n_clusters": 3, "embedding": 4, "finish": "none"}],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        SphericalKMeans,
        f"{COMMON} checkpoint cosine".replace(" memory_limit", ""),
        {"embedded": CLUSTERS | {"embedding": 12}},
        checked=[{"n_clusters": 3, "embedding": 4, "zero_rows": "first"}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS]},
    ),
    Entry(
        SphericalKMeans,
        f"{BOUNDED} checkpoint cosine",
        {"bounded": CLUSTERS | {"size_max": 26, "n_init": 2}},
        checked=[{"size_min": 1, "zero_rows": "first"}],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        SphericalKMeans,
        f"{COMMON} checkpoint cosine",
        {"default": CLUSTERS, "hamerly": CLUSTERS | {"algorithm": "hamerly"}},
        checked=[{"zero_rows": "first"}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS]},
    ),
    Entry(
        MiniBatchKMeans,
        f"{COMMON} partial_fit",
        {
            "nested": CLUSTERS | {"batch_size": 30},
            "sculley": CLUSTERS | {"batch_size": 30, "schedule": "sculley", "max_iter": 5},
            "limited": CLUSTERS | {"batch_size": 30, "center_l1": 4.0, "center_nnz": 7},
        },
        checked=[{}, {"schedule": "sculley", "n_clusters": 3, "batch_size": 20}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS], "schedule": "nested", "batch_size": 10_000},
    ),
    Entry(
        MiniBatchKMeans,
        f"{COMMON} partial_fit cosine",
        {"cosine": CLUSTERS | {"batch_size": 30, "metric": "cosine"}},
        checked=[{"metric": "cosine", "zero_rows": "first", "center_nnz": 5}],
        expected_failed=DRAWN_BY_POSITION,
        any_order={"init": ROWS[:N_CLUSTERS], "batch_size": 10_000},
    ),
    Entry(
        DBSCAN,
        "predict weights save memory_limit threads cosine",
        {"default": {"eps": 0.3}, "strict": {"eps": 0.2, "min_samples": 3}},
        checked=[{"eps": 0.1}],
    ),
    Entry(
        DBSCAN,
        "predict weights save memory_limit threads",
        {"euclidean": {"eps": 0.8, "metric": "euclidean"}},
        checked=[{"eps": 1.5, "metric": "euclidean"}],
    ),
    Entry(
        HDBSCAN,
        "save memory_limit threads cosine",
        {"default": {}, "leaf": {"cluster_selection_method": "leaf", "min_samples": 2}},
        checked=[{}],
    ),
    Entry(
        HDBSCAN,
        "save memory_limit threads",
        {"euclidean": {"metric": "euclidean"}},
        checked=[{"metric": "euclidean"}],
    ),
    Entry(
        AgglomerativeClustering,
        "save memory_limit threads",
        {
            "ward": {"n_clusters": N_CLUSTERS},
            "average by cosine": {"linkage": "average", "metric": "cosine"},
            "single": {"linkage": "single", "height": 1.0},
            "first k-means": CLUSTERS | {"first": "kmeans", "first_clusters": 20},
        },
        checked=[{}, {"linkage": "single"}, {"first": "kmeans", "first_clusters": 30}],
    ),
    Entry(
        AgglomerativeClustering,
        "save threads",
        {
            "complete": {"linkage": "complete", "n_clusters": N_CLUSTERS},
            "jaccard": {"linkage": "average", "metric": "jaccard"},
        },
        checked=[{"linkage": "complete", "metric": "manhattan"}],
    ),
    Entry(
        BisectingKMeans,
        "predict transform weights names save centers memory_limit threads",
        {
            "default": CLUSTERS,
            "largest": CLUSTERS | {"bisecting_strategy": "largest_cluster", "init": "k-means++"},
            "several": CLUSTERS | {"n_init": 3, "max_iter": 4},
        },
        checked=[{}, {"n_clusters": 3, "init": "k-means++", "n_init": 2}],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        BisectingKMeans,
        "predict transform weights names save centers memory_limit threads cosine",
        {"cosine": CLUSTERS | {"metric": "cosine"}},
        checked=[{"metric": "cosine", "zero_rows": "first"}],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        ClusterTree,
        "predict weights save threads",
        {
            "default": {"branching": 3, "max_leaf_size": 10, "random_state": 0},
            "euclidean": {"max_leaf_size": 20, "metric": "euclidean", "random_state": 0},
            "bounded": {"balanced": False, "max_leaf_size": 20, "min_leaf_size": 7}
            | {"random_state": 0, "init": "random", "n_init": 2},
        },
        checked=[
            {"max_leaf_size": 20, "metric": "euclidean"},
            {"max_leaf_size": 20, "metric": "euclidean", "balanced": False},
        ],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        ClusterTree,
        "predict weights save threads cosine",
        {"unbalanced": {"balanced": False, "max_leaf_size": 30, "branching": 4, "random_state": 0}},
        checked=[],
        expected_failed=DRAWN_BY_POSITION,
    ),
    Entry(
        SparseEmbedding,
        "transform save threads",
        {
            "hashed": {"n_components": 7, "random_state": 0},
            "tabled": {"n_components": 7, "hashed": False, "random_state": 0},
            "rule": {"n_clusters": 2, "eps": 0.99, "delta": 0.99, "random_state": 0},
        },
        checked=[
            {"n_components": 3},
            {"n_components": 5, "hashed": False},
            {"n_components": 4, "output": "dense"},
        ],
    ),
    Entry(
        Prepare,
        "transform partial_fit",
        {
            "default": {},
            "tfidf": {"tfidf": True, "norm": "l2", "log": True},
            "dropped": {"min_df": 3, "max_df": 0.4, "dtype": "float64"},
            "embedded": {"min_df": 3, "tfidf": True, "norm": "l2", "embed": 9},
        },
        # Not with logarithms, because the checks pass values below -1.
        checked=[{}, {"tfidf": True, "norm": "l2", "drop_empty": True}],
    ),
    Entry(
        RandomSigns,
        "transform save threads",
        {"default": {"n_components": 70, "random_state": 0}},
        checked=[{"n_components": 3}],
    ),
    Entry(
        LeverageSelection,
        "transform weights save threads",
        {"default": {"n_components": 12, "n_clusters": 4, "random_state": 0}},
        checked=[{"n_components": 3, "n_clusters": 1}],
    ),
    Entry(
        LaplacianScore,
        "transform save threads",
        {
            "default": {"n_components": 12},
            "cosine": {"n_components": 7, "metric": "cosine", "weights": "binary"},
        },
        checked=[{"n_components": 1, "n_neighbors": 2}],
    ),
    Entry(
        Sparsification,
        "transform save threads",
        {"default": {"n_components": 12, "random_state": 0}},
        checked=[{"n_components": 1}],
        broken={
            "test_names_of_transformed_columns_are_as_many_as_the_columns": "the result is sparse, "
            "of which scikit-learn makes no frame"
        },
    ),
    Entry(
        SparsifiedKMeans,
        "predict weights save threads",
        {
            "default": CLUSTERS | {"n_components": 12},
            "several": CLUSTERS | {"n_components": 20, "n_init": 3},
        },
        checked=[{"n_clusters": 3, "n_components": 1}, {"n_components": 1}],
        expected_failed=DRAWN_BY_POSITION,
    ),
]

# --- cases ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One variant of an estimator."""

    entry: Entry
    variant: str

    def __str__(self):
        return f"{self.entry.kind.__name__}-{self.variant}"

    def make(self, **options):
        return self.entry.kind(**self.entry.variants[self.variant] | options)

    def fitted(self):
        """A fit of SPARSE of its own, by copy: it is made once."""
        return copy.deepcopy(_fit_of(str(self)))

    def outcome(self):
        """What that fit left, and what its methods make of SPARSE; not to be changed."""
        return _outcome_of(str(self))

    def offers(self, *needs):
        return set(needs) <= set(self.entry.offers.split())

    @property
    def uses(self):
        """The methods that take rows once it is fitted."""
        return [name for name in ("predict", "transform") if self.offers(name)]


CASES = [Case(entry, variant) for entry in ESTIMATORS for variant in entry.variants]
BY_NAME = {str(case): case for case in CASES}
assert len(BY_NAME) == len(CASES)


@cache
def _fit_of(name):
    return quietly(BY_NAME[name].make().fit, SPARSE)


@cache
def _outcome_of(name):
    return outcome(BY_NAME[name], _fit_of(name), SPARSE)


def every_estimator(*needs, where=lambda case: True):
    """Run a test for every case that offers what it needs."""

    def decorate(test):
        chosen = []
        for case in CASES:
            if case.offers(*needs) and where(case):
                reason = case.entry.broken.get(test.__name__)
                marks = () if reason is None else pytest.mark.xfail(reason=reason, strict=True)
                chosen.append(pytest.param(case, marks=marks, id=str(case)))
        return pytest.mark.parametrize("case", chosen)(test)

    return decorate


# --- what a fit leaves ---------------------------------------------------------------------------


def quietly(method, *arguments, **options):
    """Call a method that may not converge, or may wait for more rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "There are no centers yet")
        return method(*arguments, **options)


def parameters(estimator):
    """Its parameters, which can be compared: estimators among them by theirs."""
    given = estimator.get_params()
    return {name: repr(one) if hasattr(one, "fit") else one for name, one in given.items()}


OF_COLUMNS = ("feature_names_in_", "feature_names_", "recipe_")


def fitted(estimator, *, columns=True):
    """A copy of all that a fit left, by name, without times; names of columns only if asked for."""
    names = [name for name in dir(estimator) if name.endswith("_") and not name.startswith("_")]
    found = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    found.pop("seconds_", None)
    if not columns:
        found = {name: value for name, value in found.items() if name not in OF_COLUMNS}
    for name in ("feature_names_in_", "feature_names_"):
        if found.get(name) is not None:
            found[name] = list(found[name])
    found["history_"] = [
        (one.iteration, one.cost, one.shift, one.moved, one.run, one.rows)
        for one in found.get("history_", [])
    ]
    return copy.deepcopy(found)


def densely(found):
    """The same with every matrix as an ndarray: dense rows give dense centers."""
    return {name: dense(value) if sp.issparse(value) else value for name, value in found.items()}


def outcome(case, estimator, X):
    """What a fit left, and what its methods make of X, with dense matrices throughout."""
    uses = {name: getattr(estimator, name)(X) for name in case.uses}
    return densely(fitted(estimator, columns=False) | uses)
