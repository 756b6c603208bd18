"""Nested batches are the same to the bit for every partition of the rows, and on real workers."""

import os
import signal
import warnings

import numpy as np
import pytest
from support.machines import (
    ForgetfulExecutor,
    Loses,
    LosingExecutor,
    assert_nothing_left,
    process_ids,
    same_history,
    sparse_rows,
    stored,
)

from sparsecluster import MiniBatchKMeans, load_model
from sparsecluster.run.local import LocalExecutor

X = sparse_rows()
SETTINGS = {
    "euclidean": {},
    "cosine": {"metric": "cosine"},
    "sparse centers": {"center_nnz": 12},
    "projected centers": {"metric": "cosine", "center_l1": 2.0},
    "one batch": {"batch_size": 5000},
    "cut short": {"max_iter": 3},
    "several starts": {"init": "random", "n_init": 3},
    "empty clusters": {"init": np.vstack([X[:5].toarray(), 50.0 + np.ones((15, 300))])},
}


def fitted(estimator, rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(rows, **options)


def nested(**given):
    return MiniBatchKMeans(20, random_state=0, **{"batch_size": 100, **given})


def assert_same_batches(one, other):
    """Equal to the bit, with what later batches would learn from."""
    assert np.array_equal(one.labels_, other.labels_)
    assert abs(one.cluster_centers_ - other.cluster_centers_).nnz == 0
    assert one.inertia_ == other.inertia_
    assert np.array_equal(one.counts_, other.counts_)
    assert same_history(one) == same_history(other)
    for some in (one, other):
        some.partial_fit(X[:200])
    assert abs(one.cluster_centers_ - other.cluster_centers_).nnz == 0


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_partitions_change_nothing(store, setting, weighted):
    weights = np.random.default_rng(1).random(X.shape[0]) * 3 if weighted else None
    if weighted:
        weights[::7] = 0
    for n_parts in (1, 4):
        whole = fitted(nested(**setting), store, sample_weight=weights)
        parts = nested(executor=LocalExecutor(n_parts), **setting)
        assert_same_batches(whole, fitted(parts, store, sample_weight=weights))


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("setting", ["euclidean", "projected centers", "empty clusters"])
def test_parts_are_restored_to_the_same_bits(store, setting, n_parts):
    given = {**SETTINGS[setting], "max_iter": 12}
    whole = fitted(nested(**given), store)
    parts = nested(executor=ForgetfulExecutor(n_parts), **given)
    assert_same_batches(whole, fitted(parts, store))


def test_a_part_that_is_lost_at_any_call_is_restored_to_the_same_bits(store):
    whole = fitted(nested(max_iter=12), store)
    methods = Loses.methods = set()
    fitted(nested(executor=LosingExecutor(3, ""), max_iter=12), store)
    assert "nest" in methods
    for method in sorted(methods):
        parts = fitted(nested(executor=LosingExecutor(3, method), max_iter=12), store)
        assert np.array_equal(whole.labels_, parts.labels_), method
        assert whole.inertia_ == parts.inertia_, method


def test_zero_rows_change_nothing(tmp_path):
    rows = X.copy().tolil()
    rows[::5] = 0
    path = stored(tmp_path, rows.tocsr())
    given = {"metric": "cosine", "zero_rows": "first"}
    whole, parts = nested(**given), nested(executor=LocalExecutor(3), **given)
    assert_same_batches(fitted(whole, path), fitted(parts, path))


def test_labels_of_a_record_are_those_of_its_iteration(store):
    def seen_by(executor):
        seen = []
        watch = {"callback": lambda record: seen.append((record.labels(), record.centers()))}
        fitted(nested(executor=executor, **watch), store)
        return seen

    for here, there in zip(seen_by(None), seen_by(LocalExecutor(3)), strict=True):
        assert np.array_equal(here[0], there[0])
        assert abs(here[1] - there[1]).nnz == 0


def test_independent_batches_are_refused_with_an_executor(store):
    with pytest.raises(ValueError, match="schedule='sculley' cannot be combined with executor"):
        MiniBatchKMeans(5, schedule="sculley", executor=1).fit(store)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_workers_change_nothing(client, store, metric, tmp_path):
    there = nested(executor=client, metric=metric).fit(store)
    assert np.array_equal(there.predict(store), there.labels_)
    assert_nothing_left(client)
    there.save(tmp_path / "model.safetensors")
    assert load_model(tmp_path / "model.safetensors").executor is None
    assert_same_batches(nested(metric=metric).fit(store), there)


def test_killed_worker_changes_nothing(client, store):
    killed = []

    def kill(record):
        if record.iteration == 4:
            killed.append(min(process_ids(client).values()))
            os.kill(killed[0], signal.SIGKILL)

    there = nested(executor=client, callback=kill).fit(store)
    assert killed
    assert_same_batches(nested().fit(store), there)
