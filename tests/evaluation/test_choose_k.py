"""The search for K: what it computes, what it recommends, how it resumes, what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.compare import same
from support.data import csr

from sparsecluster import (
    CheckpointError,
    ChoiceRecord,
    KMeans,
    choose_k,
    clustering_cost,
    convert,
    open_store,
    silhouette,
    simplified_silhouette,
)
from sparsecluster.evaluation.choice import as_table
from sparsecluster.evaluation.recommend import knee, recommend

BY = {"euclidean": "sqeuclidean", "cosine": "cosine"}


def groups(n_groups, seed=0, size=40, n_features=60, noise=0.02):
    """Sparse rows about a few columns that are a group's own."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_groups), size)
    own = np.zeros((n_groups, n_features), dtype=bool)
    for group, columns in enumerate(rng.permutation(n_features).reshape(-1, 5)[:n_groups]):
        own[group, columns] = True
    chance = np.where(own, 0.8, noise)[labels]
    X = (rng.random(chance.shape) < chance) * rng.gamma(16, 1 / 16, chance.shape)
    X[~X.any(axis=1), -1] = 1
    return X, labels


def untimed(choice):
    """All of a choice but for times."""
    columns = {name: choice.table[name] for name in choice.table.dtype.names if name != "seconds"}
    return [choice.k, choice.reason, choice.doubt, choice.labels, choice.centers, columns]


@pytest.mark.parametrize("metric", BY)
@pytest.mark.parametrize("n_groups", [3, 6, 11])
def test_clear_groups_are_counted(n_groups, metric):
    X, _ = groups(n_groups)
    choice = choose_k(csr(X), range(2, 16), metric=metric, random_state=0)
    assert choice.k == n_groups
    assert str(n_groups) in choice.reason
    assert choice.labels.max() + 1 == len(np.unique(choice.labels)) == n_groups


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", BY)
def test_the_table_says_what_the_measures_say(metric, weighted):
    X, _ = groups(5)
    weights = np.arange(len(X)) % 3 + 1.0 if weighted else None
    kept = {}

    def keep(record):
        kept[record.k] = record

    choice = choose_k(
        csr(X), [2, 5, 9], metric=metric, random_state=1, sample_weight=weights, callback=keep
    )
    assert choice.table["k"].tolist() == sorted(kept) == [2, 5, 9]
    assert choice.k == 5
    row = choice.table[1]
    cost = clustering_cost(csr(X), choice.labels, metric=metric, sample_weight=weights)
    assert row["cost"] == pytest.approx(cost, rel=1e-9)
    by_rows = silhouette(
        csr(X), choice.labels, metric=BY[metric], samples=True, sample_weight=weights
    )
    mean = np.average(by_rows, weights=weights)
    assert row["silhouette"] == pytest.approx(mean, abs=1e-9)
    spread = np.sqrt(np.average((by_rows - mean) ** 2, weights=weights) / len(X))
    assert row["silhouette_error"] == pytest.approx(spread, rel=1e-9)
    simplified = simplified_silhouette(
        csr(X), choice.labels, metric=BY[metric], sample_weight=weights
    )
    assert row["simplified_silhouette"] == pytest.approx(simplified, abs=1e-9)
    assert kept[5].cost == row["cost"]
    assert row["stability"] > 0.9


@pytest.mark.parametrize("metric", BY)
def test_the_cost_falls_and_stays_near_that_of_separate_fits(metric):
    X, _ = groups(9, noise=0.2)
    choice = choose_k(csr(X), range(2, 20), metric=metric, random_state=0)
    assert np.all(np.diff(choice.table["cost"]) < 0)
    for k, cost in zip(choice.table["k"], choice.table["cost"], strict=True):
        alone = KMeans(int(k), metric=metric, random_state=0).fit(csr(X)).inertia_
        assert cost <= 1.03 * alone


def test_centers_and_labels_are_those_of_the_choice():
    X, _ = groups(4)
    choice = choose_k(csr(X), range(2, 8), random_state=0)
    km = KMeans(choice.k, init=choice.centers).fit(csr(X))
    assert np.array_equal(km.labels_, choice.labels)
    assert isinstance(choose_k(X, [4], random_state=0).centers, np.ndarray)


def test_nothing_depends_on_threads_or_where_the_rows_are(tmp_path):
    X, _ = groups(5)
    matrix = csr(X)
    sp.save_npz(tmp_path / "x.npz", matrix)
    convert(tmp_path / "x.npz", tmp_path / "x.store")
    expected = untimed(choose_k(matrix, range(2, 9), random_state=0, n_threads=1))
    for rows in (matrix, open_store(tmp_path / "x.store"), tmp_path / "x.npz"):
        found = choose_k(rows, range(2, 9), random_state=0, n_threads=3)
        assert same(untimed(found), expected)


@pytest.mark.parametrize("ended_at", [2, 5, 8])
def test_a_search_that_was_cut_short_ends_as_if_it_had_not_been(ended_at, tmp_path):
    X, _ = groups(5)
    options = {"random_state": 0, "metric": "cosine", "checkpoint_every": 0}
    whole = choose_k(csr(X), range(2, 9), **options)

    def interrupt(record):
        if record.k == ended_at:
            raise KeyboardInterrupt

    folder = tmp_path / "search"
    with pytest.raises(KeyboardInterrupt):
        choose_k(csr(X), range(2, 9), checkpoint=folder, callback=interrupt, **options)
    tried = []
    resumed = choose_k(
        csr(X), range(2, 9), checkpoint=folder, callback=lambda one: tried.append(one.k), **options
    )
    assert tried == list(range(ended_at + 1, 9))
    assert same(untimed(resumed), untimed(whole))
    with pytest.raises(CheckpointError, match=r"another fit .different k_range"):
        choose_k(csr(X), range(2, 7), checkpoint=folder, **options)


def test_without_samples_there_is_no_stability_and_the_search_resumes(tmp_path):
    X, _ = groups(4)
    options = {"n_resamples": 0, "random_state": 0, "checkpoint": tmp_path / "c"}
    choice = choose_k(csr(X), range(2, 6), **options)
    assert np.isnan(choice.table["stability"]).all()
    assert same(untimed(choose_k(csr(X), range(2, 6), **options)), untimed(choice))
    assert "Rand" not in choice.reason


def test_a_callback_ends_the_search_and_that_is_told():
    X, _ = groups(6)
    choice = choose_k(csr(X), range(2, 15), random_state=0, callback=lambda one: one.k == 4)
    assert choice.table["k"].tolist() == [2, 3, 4]
    ended = "The search ended at K = 4, before the end of the range, and a larger one may be better"
    assert choice.doubt.startswith(ended)
    assert "last of the range" not in choice.doubt


def test_doubts_are_told():
    rng = np.random.default_rng(0)
    choice = choose_k(csr(rng.random((300, 40)) < 0.2), range(2, 12), random_state=0)
    assert "is low" in choice.doubt
    assert choice.k in choice.table["k"]
    clear = choose_k(csr(groups(6, noise=0.01)[0]), range(2, 12), random_state=0)
    assert "is low" not in clear.doubt


def test_a_more_stable_k_and_a_rival_are_told():
    records = [(2, 0.30, 0.90), (3, 0.20, 0.5), (4, 0.31, 0.70), (5, 0.1, 0.4)]
    table = as_table(
        [
            ChoiceRecord(
                k=k, cost=10.0 - k, silhouette=0.2, silhouette_error=0.0, stability=stable,
                simplified_silhouette=value, simplified_error=0.001, iterations=1, seconds=0.0,
            )
            for k, value, stable in records
        ]
    )  # fmt: skip
    advice = recommend(table)
    assert advice.k == 4
    assert "K = 2 is more stable, with 0.90" in advice.doubt
    assert "K = 2 is nearly as good" not in advice.doubt
    table["simplified_silhouette"][0] = 0.306
    assert (
        "K = 2 is nearly as good, with a simplified silhouette of 0.306" in recommend(table).doubt
    )
    table["simplified_silhouette"][0] = 0.3095
    assert recommend(table).k == 2  # within its standard error, and more stable


def test_short_rows_that_are_near_to_all_do_not_hide_the_other_clusters():
    rng = np.random.default_rng(1)
    chance = np.full((12, 400), 0.003)
    for kind in chance:
        kind[rng.choice(400, 14, replace=False)] = 0.3
    bought = rng.random((960, 400)) < chance[np.repeat(np.arange(12), 80)]
    choice = choose_k(csr(bought.astype(float)), range(2, 21), random_state=0)
    # Baskets with little in them are a cluster, too, to which mean distances are short.
    assert choice.table["k"][np.argmax(choice.table["silhouette"])] < 11
    assert choice.k == 12


def test_few_distinct_rows_end_the_range():
    X = np.repeat(np.eye(4), 10, axis=0)
    choice = choose_k(csr(X), range(2, 9), random_state=0)
    assert choice.k == 4
    assert choice.table["k"].tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="too few distinct rows for 5 clusters"):
        choose_k(csr(X), range(5, 9), random_state=0)


def test_rows_of_zeros_by_cosine():
    X, _ = groups(4)
    X[[3, 50]] = 0
    with pytest.raises(ValueError, match="Row 3 of X is zero"):
        choose_k(csr(X), range(2, 6), metric="cosine")
    choice = choose_k(csr(X), range(2, 6), metric="cosine", zero_rows="first", random_state=0)
    assert choice.k == 4


def test_the_knee_is_farthest_below_the_line_between_the_ends():
    ks = np.arange(2, 12)
    costs = np.where(ks < 6, 100 - 20 * (ks - 2), 20 - (ks - 6))
    assert knee(ks, costs.astype(float)) == 6
    assert knee(np.array([3]), np.array([1.0])) == 3
    assert knee(np.array([2, 3, 4]), np.ones(3)) == 2


def test_the_table_as_text_and_as_a_picture(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    choice = choose_k(csr(groups(4)[0]), range(2, 8), random_state=0)
    assert "    4 " in str(choice)
    assert "Doubt: " in str(choice)
    assert "k=4" in repr(choice)
    axes = choice.plot()
    assert axes[0].get_ylabel() == "cost"
    assert axes[1].get_xlabel() == "K"
    axes[0].figure.savefig(tmp_path / "choice.png")
    plt.close("all")


def test_a_split_of_some_hundred_rows_is_not_left_to_one_start():
    """Where it was, the largest cluster was split in its stead, by the lengths of its rows."""
    rng = np.random.default_rng(4)
    classes = np.repeat(np.arange(5), (1500, 800, 400, 200, 100))
    rates = np.tile(rng.gamma(0.3, 1.0, size=2000), (5, 1))
    for one in range(5):
        rates[one, rng.choice(2000, 60, replace=False)] += rng.gamma(2.0, 1.0, size=60)
    lengths = rng.lognormal(0.0, 0.25, size=len(classes))[:, None]
    X = sp.csr_array(np.log1p(rng.poisson(0.5 * rates[classes] * lengths)))
    # The two small classes are one cluster: lower costs divide the largest class first.
    assert choose_k(X, range(2, 7), random_state=0, n_resamples=0).k == 4


REFUSED = {
    "empty": ({"k_range": []}, "k_range is empty"),
    "one": ({"k_range": [1, 2]}, "at least 2, got 1"),
    "half": ({"k_range": [2.5]}, "at least 2, got 2.5"),
    "a flag": ({"k_range": [True]}, "at least 2, got True"),
    "a number": ({"k_range": 5}, "as range"),
    "text": ({"k_range": "2-5"}, "as range"),
    "as many as rows": ({"k_range": range(2, 13)}, "goes up to 12, and X has 12 rows"),
    "metric": ({"metric": "manhattan"}, "metric='manhattan'"),
    "zero rows": ({"zero_rows": "drop"}, "zero_rows='drop'"),
    "n_init": ({"n_init": 0}, "n_init"),
    "n_resamples": ({"n_resamples": -1}, "n_resamples"),
    "tol": ({"tol": -1}, "tol"),
    "max_iter": ({"max_iter": 0}, "max_iter"),
    "callback": ({"callback": 3}, "callback must be callable"),
    "every": ({"checkpoint_every": "soon"}, "checkpoint_every"),
    "weights": ({"sample_weight": [np.nan] * 12}, "NaN"),
    "threads": ({"n_threads": 0}, "n_threads"),
    "memory": ({"memory_limit": "all"}, "memory_limit"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_tried_is_refused(case):
    changed, message = REFUSED[case]
    options = {"k_range": range(2, 5)} | changed
    with pytest.raises(ValueError, match=message):
        choose_k(np.eye(12), options.pop("k_range"), **options)


def test_a_search_that_runs_out_of_distinct_rows_says_so():
    doubt = choose_k(np.repeat(np.eye(4), 5, axis=0), range(2, 10), random_state=0).doubt
    assert "X has no more distinct rows than that" in doubt
    assert "a larger one may be better" not in doubt


def test_a_range_that_ends_without_a_cost_asks_for_no_larger_k():
    doubt = choose_k(np.repeat(np.eye(4), 20, axis=0), [2, 3, 4], random_state=0).doubt
    assert doubt.startswith("K = 4 leaves no cost: X has no more distinct rows than that")
    assert "a larger one may be better" not in doubt


def test_a_range_with_a_gap_says_which_k_ended_it():
    doubt = choose_k(np.repeat(np.eye(4), 20, axis=0), [2, 6], random_state=0).doubt
    assert doubt.startswith("The search ended at K = 2: X has too few distinct rows for 6 clusters")


def made_table(records):
    """A table of these K, simplified silhouettes with an error of 0.01, stabilities and costs."""
    return as_table(
        [
            ChoiceRecord(
                k=k, cost=cost, silhouette=0.5, silhouette_error=0.0, stability=stable,
                simplified_silhouette=value, simplified_error=0.01, iterations=1, seconds=0.0,
            )
            for k, value, stable, cost in records
        ]
    )  # fmt: skip


def test_measures_agree_only_where_several_were_compared():
    records = [(2, 0.3, 0.7, 9.0), (3, 0.5, 0.9, 2.0), (4, 0.4, 0.7, 1.0)]
    assert recommend(made_table(records)).doubt == "Little: all measures agree."
    without = made_table([(k, value, np.nan, cost) for k, value, _, cost in records])
    assert recommend(without).doubt == "Little: nothing that was measured speaks against it."
    assert recommend(without[1:2]).doubt == "No other K was tried."


def test_a_higher_silhouette_is_told():
    table = made_table([(2, 0.3, 0.7, 9.0), (3, 0.5, 0.9, 2.0), (4, 0.505, 0.88, 1.0)])
    advice = recommend(table)
    assert advice.k == 3
    assert advice.doubt == "K = 4 has a higher simplified silhouette, 0.505."


def test_two_rows_leave_a_single_cluster():
    with pytest.raises(ValueError, match=r"X has 2 rows: at most 1 cluster can be judged"):
        choose_k(np.eye(2), [2])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_large_weights_choose_as_small_ones(metric):
    X = np.random.default_rng(0).random((60, 4))
    weights = np.random.default_rng(1).integers(1, 4, 60)
    small, large = (
        choose_k(X, range(2, 6), metric=metric, sample_weight=weights * by, random_state=0)
        for by in (2.0**200, 2.0**700)
    )
    assert (small.k, small.reason, small.doubt) == (large.k, large.reason, large.doubt)
    assert np.isfinite(small.table["stability"]).all()
    assert np.array_equal(small.table["stability"], large.table["stability"])
    assert np.array_equal(small.table["cost"] * 2.0**500, large.table["cost"])


def test_a_checkpoint_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ValueError, match="is a file; a checkpoint is a folder"):
        choose_k(np.arange(20.0)[:, None], range(2, 4), checkpoint=file)
