"""Fits on real Dask workers, in processes: the same bits as in one."""

import pickle
import subprocess
import sys
import threading
import types
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from support.machines import assert_nothing_left, assert_same_fit, sparse_rows

from sparsecluster import KMeans, SphericalKMeans, load_model, seed_centers, silhouette
from sparsecluster.kmeans.partition import Partition
from sparsecluster.run import dask_session
from sparsecluster.run.local import LocalExecutor

pytest.importorskip("distributed")
X = sparse_rows()
FAR = np.vstack([X[:5].toarray(), 50.0 + np.arange(15 * 300).reshape(15, 300) % 97])
STARTS = {"k-means++": "k-means++", "k-means||": "k-means||", "empty clusters": FAR}


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
@pytest.mark.parametrize("init", STARTS.values(), ids=STARTS)
def test_workers_change_nothing(client, store, estimator, init):
    parameters = {"init": init, "random_state": 0}
    remote = estimator(20, executor=client, **parameters).fit(store)
    assert_same_fit(estimator(20, **parameters).fit(store), remote)
    assert_nothing_left(client)


def test_single_worker_of_its_own_changes_nothing(store):
    remote = KMeans(20, random_state=0, executor=1).fit(store)
    assert_same_fit(KMeans(20, random_state=0).fit(store), remote)


def test_answers_merged_on_workers_change_nothing(client, store, monkeypatch):
    monkeypatch.setattr(dask_session, "FAN_IN", 2)
    remote = KMeans(20, random_state=0, executor=client).fit(store)
    assert_same_fit(KMeans(20, random_state=0).fit(store), remote)


def test_rows_of_a_store_are_predicted_by_workers(client, store):
    fitted = KMeans(20, random_state=0).fit(X)
    labels = fitted.set_params(executor=client).predict(store)
    assert np.array_equal(labels, fitted.labels_)
    assert_nothing_left(client)


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
def test_distances_and_score_are_found_by_workers(client, store, estimator):
    here = estimator(20, random_state=0).fit(X)
    there = clone(here).set_params(executor=client).fit(store)
    distances, weights = there.transform(store), np.random.default_rng(0).random(X.shape[0])
    assert distances.dtype == X.dtype
    assert np.array_equal(distances, here.transform(X))
    assert there.score(store) == here.score(X)
    assert there.score(store, sample_weight=weights) == here.score(X, sample_weight=weights)
    assert_nothing_left(client)


def test_labels_are_written_by_workers(client, store, tmp_path):
    fitted = KMeans(20, random_state=0).fit(X)
    n_rows = fitted.write_labels(X, tmp_path / "here.npy")
    fitted.set_params(executor=client).write_labels(store, tmp_path / "there.npy")
    assert n_rows == len(fitted.labels_)
    assert (tmp_path / "here.npy").read_bytes() == (tmp_path / "there.npy").read_bytes()
    assert np.array_equal(np.load(tmp_path / "there.npy"), fitted.labels_)
    with pytest.raises(ValueError, match="labels are written as"):
        fitted.write_labels(store, tmp_path / "labels.txt")


@pytest.mark.parametrize("options", [{}, {"n_init": 2, "init": "random"}, {"max_iter": 3}])
def test_labels_of_a_fit_are_written_by_workers(store, tmp_path, monkeypatch, options):
    def never(self):
        raise AssertionError("labels travel")

    here = KMeans(20, random_state=0, **options).fit(store)
    monkeypatch.setattr(Partition, "labels", never)
    there = KMeans(20, random_state=0, executor=LocalExecutor(3), **options)
    assert_same_fit(here, there.fit(store, labels_file=tmp_path / "labels.npy"))
    assert isinstance(there.labels_, np.memmap)
    assert np.array_equal(np.load(tmp_path / "labels.npy"), here.labels_)


def test_labels_file_is_checked_before_the_fit(store, tmp_path):
    with pytest.raises(ValueError, match="labels_file needs executor"):
        KMeans(5).fit(store, labels_file=tmp_path / "labels.npy")
    with pytest.raises(ValueError, match="labels are written as"):
        KMeans(5, executor=LocalExecutor(1)).fit(store, labels_file=tmp_path / "labels.txt")


def test_labels_that_a_worker_cannot_write_do_not_appear(store, tmp_path, monkeypatch):
    def refuse(self, path, offset, **centers):
        return "No such file or directory"

    monkeypatch.setattr(Partition, "write_nearest", refuse)
    fitted = KMeans(20, random_state=0, executor=LocalExecutor(2)).fit(store)
    with pytest.raises(ValueError, match=r"A worker cannot write to .* \(No such file"):
        fitted.write_labels(store, tmp_path / "labels.npy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_silhouettes_are_found_by_workers(client, store, metric):
    labels = KMeans(20, random_state=0).fit(X).labels_
    here = silhouette(store, labels, metric=metric)
    assert silhouette(store, labels, metric=metric, executor=client) == here
    assert_nothing_left(client)


@pytest.mark.parametrize("method", ["random", "k-means||", "oversample", "mcmc"])
def test_centers_are_seeded_by_workers(client, store, method):
    parameters = {"metric": "cosine", "random_state": 0}
    centers, indices = seed_centers(store, 20, method, **parameters)
    found, where = seed_centers(store, 20, method, executor=client, **parameters)
    assert np.array_equal(indices, where)
    assert found.dtype == centers.dtype
    assert abs(found - centers).nnz == 0


def test_two_fits_at_once_change_nothing(client, store):
    fits = {seed: KMeans(15, init="random", random_state=seed, executor=client) for seed in (1, 2)}
    threads = [threading.Thread(target=fit.fit, args=(store,)) for fit in fits.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, fit in fits.items():
        assert_same_fit(KMeans(15, init="random", random_state=seed).fit(store), fit)


# --- blocks that Dask has -----------------------------------------------------------------------


def delayed_blocks(*cuts):
    import dask

    return [dask.delayed(X[begin:end]) for begin, end in pairwise(cuts)]


def dask_array(**known):
    import dask.array as da

    cuts = (0, 100, 600, 1100, 1500)
    parts = [
        da.from_delayed(one, (np.nan if known else end - begin, 300), meta=X[:0])
        for one, (begin, end) in zip(delayed_blocks(*cuts), pairwise(cuts), strict=True)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def annotated():
    names = [f"gene{column}" for column in range(300)]
    return types.SimpleNamespace(X=dask_array(), var_names=names, obs_names=np.arange(1500))


SOURCES = {
    "array": dask_array,
    "array of unknown chunks": lambda: dask_array(unknown=True),
    "delayed": lambda: delayed_blocks(0, 700, 700, 1500),
    "AnnData": annotated,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_blocks_of_dask_change_nothing(client, source):
    parameters = {"init": "k-means||", "random_state": 0}
    remote = KMeans(20, executor=client, **parameters).fit(source())
    assert_same_fit(KMeans(20, **parameters).fit(X), remote)
    assert np.array_equal(remote.predict(source()), remote.labels_)
    assert_nothing_left(client)


def test_futures_of_blocks_change_nothing(client):
    futures = [client.scatter(X[begin : begin + 500]) for begin in range(0, 1500, 500)]
    remote = KMeans(20, init="random", random_state=0, executor=client).fit(futures)
    assert_same_fit(KMeans(20, init="random", random_state=0).fit(X), remote)


def test_dense_blocks_change_nothing_but_the_type_of_centers():
    import dask.array as da

    dense, given = X[:300].toarray(), {"init": "k-means||", "random_state": 0}
    here = KMeans(7, **given).fit(dense)
    blocks = da.from_array(dense, chunks=(100, 300))
    there = KMeans(7, executor=LocalExecutor(2), **given).fit(blocks)
    assert np.array_equal(here.labels_, there.labels_)
    assert here.inertia_ == there.inertia_
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_.toarray())


def test_names_of_variables_are_kept(client):
    remote = KMeans(5, init="random", random_state=0, executor=client).fit(annotated())
    assert remote.feature_names_[7] == "gene7"


def test_persisted_blocks_and_other_starts_change_nothing(client):
    persisted = client.persist(dask_array())
    remote = KMeans(20, random_state=0, executor=client).fit(persisted)
    assert_same_fit(KMeans(20, random_state=0).fit(X), remote)


def test_blocks_are_not_taken_here_beyond_the_memory_limit(client):
    small = {"memory_limit": 1000, "random_state": 0, "executor": client}
    with pytest.raises(ValueError, match="more than the memory limit"):
        KMeans(5, **small).fit(dask_array())
    assert KMeans(5, init="random", **small).fit(dask_array()).n_clusters_ == 5


def test_blocks_that_are_wrong_are_named(client):
    import dask

    broken = X.copy()
    broken.data[5] = np.nan
    blocks = [*delayed_blocks(0, 700), dask.delayed(broken)]
    with pytest.raises(ValueError, match=r"In the blocks of rows 700 to 2199.* contains NaN"):
        KMeans(5, init=X[:5], executor=client).fit(blocks)
    narrow = [*delayed_blocks(0, 700), dask.delayed(X[:, :7])]
    with pytest.raises(ValueError, match=r"different widths: \[7, 300\]"):
        KMeans(5, init=X[:5], executor=client).fit(narrow)
    with pytest.raises(ValueError, match="hold whole rows"):
        KMeans(5, executor=client).fit(dask_array().rechunk((500, 100)))
    assert_nothing_left(client)


# --- an estimator with a client -----------------------------------------------------------------


def test_estimator_with_a_client_is_cloned_and_pickled(client, store, tmp_path):
    estimator = KMeans(5, init=X[:5], executor=client).fit(store)
    assert clone(estimator).executor is estimator.get_params()["executor"] is client
    assert not hasattr(clone(estimator), "labels_")
    other = pickle.loads(pickle.dumps(estimator))
    assert other.executor == client.scheduler.address
    assert np.array_equal(other.predict(store), estimator.labels_)
    estimator.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), estimator.labels_)
    assert estimator.executor is client


def test_package_is_imported_without_dask():
    code = (
        "import sparsecluster, sys; sparsecluster.KMeans; assert 'distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
