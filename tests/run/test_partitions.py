"""A fit is the same to the bit for every partition of its rows."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.machines import (
    ForgetfulExecutor,
    Loses,
    LosingExecutor,
    assert_same_fit,
    sparse_rows,
    stored,
)

from sparsecluster import KMeans, SphericalKMeans, _core
from sparsecluster.kmeans import remote, replay
from sparsecluster.rows.rows import as_rows
from sparsecluster.run.local import LocalExecutor, LocalSession

X = sparse_rows()
FAR = sp.csr_array(np.vstack([X[:5].toarray(), 50.0 + np.arange(15 * 300).reshape(15, 300) % 97]))
STARTS = {
    "k-means++": {},
    "random": {"init": "random", "n_init": 2},
    "k-means||": {"init": "k-means||", "init_options": {"rounds": 2}, "n_init": 2},
    "oversample": {"init": "oversample"},
    "hierarchical": {"init": "hierarchical", "init_options": {"sample_size": 200}},
    "given": {"init": X[:20]},
    "empty clusters": {"init": FAR},
    "elkan": {"algorithm": "elkan"},
    "cut short": {"max_iter": 3},
}
ESTIMATORS = (KMeans, SphericalKMeans)


def fitted(estimator, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, **options)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_partitions_change_nothing(store, estimator, start, weighted):
    weights = np.random.default_rng(1).random(X.shape[0]) * 3 if weighted else None
    whole = fitted(estimator(20, random_state=0, **start), store, sample_weight=weights)
    for n_parts in (1, 5):
        parts = estimator(20, random_state=0, executor=LocalExecutor(n_parts), **start)
        assert_same_fit(whole, fitted(parts, store, sample_weight=weights))


@pytest.fixture
def traded(monkeypatch):
    """Parts merge among themselves what they find, however little it is."""
    monkeypatch.setattr(remote, "FEW_SUMS", -1)


@pytest.mark.usefixtures("traded")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("n_parts", [2, 5, 23])
def test_parts_that_merge_among_themselves_change_nothing(store, estimator, start, n_parts):
    parts = estimator(20, random_state=0, executor=LocalExecutor(n_parts, n_threads=3), **start)
    assert_same_fit(fitted(estimator(20, random_state=0, **start), store), fitted(parts, store))


class Watching(LocalExecutor):
    """Keeps the deltas that parts are sent, and counts those that they merge themselves."""

    n_trades = 0

    def session(self, factory, specs):
        deltas, executor = [], self
        self.deltas = deltas

        class Watched(LocalSession):
            def _called(self, call):
                executor.n_trades += call.method == "trade"
                if call.method == "step":
                    deltas.append(call.shared["delta"] if call.shared["applies"] else "none yet")
                return super()._called(call)

        return Watched(factory, specs, 1)


def test_only_sums_that_changed_are_sent(store):
    executor, centers = Watching(3), [X[:20].toarray()]
    keep = {"callback": lambda record: centers.append(record.centers().toarray())}
    KMeans(20, init=X[:20], tol=0, executor=executor, **keep).fit(store)
    first, *deltas = executor.deltas
    assert first == "none yet"
    assert executor.n_trades == 0
    assert len(deltas[-1][2]) < len(deltas[0][2])
    for (_, begin, *_), before, after in zip(deltas, centers, centers[1:], strict=False):
        moved = np.flatnonzero((before != after).any(axis=1))
        assert set(moved) <= set(np.flatnonzero(np.diff(begin)))


def test_many_sums_are_not_sent_by_way_of_the_driver(store, monkeypatch):
    monkeypatch.setattr(remote, "FEW_SUMS", 500)
    executor = Watching(3)
    found = KMeans(20, init=X[:20], executor=executor).fit(store)
    large = [delta is None for delta in executor.deltas[1:]]
    assert 0 < executor.n_trades == sum(large) < len(large)
    assert_same_fit(KMeans(20, init=X[:20]).fit(store), found)


def test_nothing_of_its_own_is_sent_to_a_single_part(store):
    executor = Watching(1)
    KMeans(20, init=X[:20], executor=executor).fit(store)
    assert set(executor.deltas) == {"none yet", None}
    assert executor.n_trades == 0


def test_clusters_that_nothing_can_fill_go(tmp_path):
    rows = np.repeat(np.arange(1.0, 6)[:, None], 30, axis=0) * np.array([[1.0, 2.0]])
    path, init = stored(tmp_path, rows), np.vstack([rows[:1]] * 8)
    whole = fitted(KMeans(8, init=init), path)
    assert whole.n_clusters_ == 5
    for n_parts in (2, 7):
        parts = KMeans(8, init=init, executor=LocalExecutor(n_parts))
        with pytest.warns(UserWarning, match="smaller than n_clusters"):
            parts.fit(path)
        assert_same_fit(whole, parts)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("start", ["given", "empty clusters", "elkan", "random", "k-means||"])
@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_are_restored_to_the_same_bits(store, estimator, start, n_parts):
    weights = np.random.default_rng(1).random(X.shape[0])
    given = {"random_state": 0, "max_iter": 6, **STARTS[start]}
    whole = fitted(estimator(20, **given), store, sample_weight=weights)
    parts = estimator(20, executor=ForgetfulExecutor(n_parts), **given)
    assert_same_fit(whole, fitted(parts, store, sample_weight=weights))


@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_are_restored_after_clusters_went(tmp_path, n_parts):
    rows = np.repeat(np.arange(1.0, 6)[:, None], 30, axis=0) * np.array([[1.0, 2.0]])
    path, init = stored(tmp_path, rows), np.vstack([rows[:1]] * 8)
    parts = KMeans(8, init=init, executor=ForgetfulExecutor(n_parts))
    assert_same_fit(fitted(KMeans(8, init=init), path), fitted(parts, path))


@pytest.mark.usefixtures("traded")
@pytest.mark.parametrize("start", ["given", "empty clusters"])
def test_parts_that_merge_among_themselves_are_restored(store, start):
    given = {"random_state": 0, "max_iter": 6, **STARTS[start]}
    parts = KMeans(20, executor=ForgetfulExecutor(3), **given)
    assert_same_fit(fitted(KMeans(20, **given), store), fitted(parts, store))


@pytest.mark.parametrize("few_sums", [-1, remote.FEW_SUMS], ids=["traded", "sent"])
@pytest.mark.parametrize("start", ["given", "empty clusters", "cut short"])
def test_a_part_that_is_lost_at_any_call_changes_nothing(store, monkeypatch, start, few_sums):
    monkeypatch.setattr(remote, "FEW_SUMS", few_sums)
    given = {"random_state": 0, **STARTS[start]}
    whole, methods = fitted(KMeans(20, **given), store), set()
    monkeypatch.setattr(Loses, "methods", methods)
    fitted(KMeans(20, executor=LosingExecutor(3, ""), **given), store)
    assert {"begin", "step"} <= methods
    assert ("trade" in methods) == (few_sums < 0)
    for method in sorted(methods):
        parts = fitted(KMeans(20, executor=LosingExecutor(3, method), **given), store)
        assert_same_fit(whole, parts)


@pytest.mark.parametrize("start", ["given", "empty clusters"])
@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_are_restored_from_their_last_iterations(store, monkeypatch, start, n_parts):
    longest = []
    add = replay.Replay.add

    def counted(self, step):
        add(self, step)
        longest.append(len(self.steps))

    monkeypatch.setattr(replay, "REPLAY_SECONDS", 0.0)
    monkeypatch.setattr(replay, "REPLAY_SHARE", 0.0)
    monkeypatch.setattr(replay.Replay, "add", counted)
    given = {"random_state": 0, **STARTS[start]}
    parts = fitted(KMeans(20, executor=ForgetfulExecutor(n_parts), **given), store)
    assert_same_fit(fitted(KMeans(20, **given), store), parts)
    assert parts.n_iter_ > max(longest) > 0


def test_fit_resumes_on_another_number_of_parts(store, tmp_path):
    def stop(record):
        return record.iteration == 4 and 1 / 0

    given = {"init": X[:20], "checkpoint": tmp_path / "checkpoint", "checkpoint_every": 0}
    with pytest.raises(ZeroDivisionError):
        KMeans(20, executor=LocalExecutor(3), callback=stop, **given).fit(store)
    resumed = KMeans(20, executor=LocalExecutor(2), **given).fit(store)
    assert_same_fit(KMeans(20, init=X[:20]).fit(store), resumed)


def test_zero_row_is_named_by_its_number_among_all(tmp_path):
    rows = X.copy().tolil()
    rows[1234] = 0
    path = stored(tmp_path, sp.csr_matrix(rows))
    with pytest.raises(ValueError, match="Row 1234 of X is zero"):
        SphericalKMeans(5, executor=LocalExecutor(3)).fit(path)


def test_damaged_block_is_refused_by_its_part(tmp_path):
    path = stored(tmp_path, X)
    with open(path / "data.npy", "r+b") as file:
        file.seek(-3, 2)
        file.write(b"\x01")
    with pytest.raises(ValueError, match="damaged"):
        KMeans(5, init=X[:5], executor=LocalExecutor(2)).fit(path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"refine": "first-variation"}, "refine cannot be combined with executor"),
        ({"size_max": 900}, "size_max cannot be combined with executor"),
        ({"embedding": 10}, "embedding cannot be combined with executor"),
        ({"executor": 0}, "at least 1 worker process"),
        ({"executor": 1.5}, "executor must be a dask.distributed Client"),
    ],
)
def test_bad_parameters_are_refused(store, parameters, message):
    with pytest.raises(ValueError, match=message):
        KMeans(5, **{"executor": LocalExecutor(2), **parameters}).fit(store)


def test_matrix_is_refused():
    with pytest.raises(ValueError, match="X to be a store that all workers see"):
        KMeans(5, executor=LocalExecutor(2)).fit(X)


def test_columns_beyond_fixed_point_are_refused(tmp_path):
    rows = np.ones((200, 2))
    rows[0, 0] = 1e-40
    with pytest.raises(ValueError, match="orders of magnitude"):
        KMeans(2, init=rows[:2], executor=LocalExecutor(2)).fit(stored(tmp_path, rows))


# --- what adds up -------------------------------------------------------------------------------

doubles = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=200, deadline=None)
@given(st.lists(doubles.filter(lambda x: abs(x) < 1e300), max_size=30), st.integers(0, 30))
def test_exact_sum_is_the_rounded_one(terms, cut):
    parts = [_core.exact_limbs(np.array(part)) for part in (terms[:cut], terms[cut:])]
    assert _core.exact_value(parts[0] + parts[1]) == math.fsum(terms)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_statistics_of_columns_are_those_of_numpy(weighted):
    weights = np.random.default_rng(2).random(X.shape[0]) if weighted else None
    share = np.ones(X.shape[0]) if weights is None else weights
    dense = X.toarray().astype(np.float64)
    mean = share @ dense / share.sum()
    scatter = float((share[:, None] * (dense - mean) ** 2).sum())
    stats = _core.column_stats(as_rows(X, n_threads=1).core, weights)
    assert math.isclose(stats.scatter, scatter, rel_tol=1e-12)
    assert math.isclose(stats.mean_variance, scatter / share.sum() / X.shape[1], rel_tol=1e-12)
