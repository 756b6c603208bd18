"""Stores and fits for what is to be the same on any number of workers."""

import os
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from sparsecluster import convert
from sparsecluster.run.dask_session import everywhere
from sparsecluster.run.local import LocalExecutor, LocalSession
from sparsecluster.run.worker import n_held


def sparse_rows(n_rows=1500, n_features=300, seed=0):
    """Rows of different lengths, none of them zero."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n_rows, n_features), density=0.03, rng=rng, format="csr")
    X = X + sp.csr_array((np.ones(n_rows), (np.arange(n_rows), np.arange(n_rows) % n_features)))
    return sp.csr_matrix(X, dtype=np.float32)


def stored(folder, X, name="rows"):
    """The path of a store of these rows."""
    sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(X))
    convert(folder / f"{name}.npz", folder / f"{name}.store")
    return folder / f"{name}.store"


def assert_same_fit(one, other):
    """Equal to the bit: labels, centers, costs, and every iteration."""
    assert np.array_equal(one.labels_, other.labels_)
    assert one.n_clusters_ == other.n_clusters_
    assert abs(one.cluster_centers_ - other.cluster_centers_).nnz == 0
    assert one.inertia_ == other.inertia_
    assert one.objective_ == other.objective_
    assert np.array_equal(one.cluster_weights_, other.cluster_weights_)
    assert same_history(one) == same_history(other)


def same_history(estimator):
    """What has to be equal of all iterations."""
    return [(one.iteration, one.cost, one.shift, one.moved, one.rows) for one in estimator.history_]


def local_cluster(n_workers, **options):
    """Worker processes of one thread each, which a nanny replaces."""
    import distributed

    parameters = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    return distributed.LocalCluster(
        n_workers=n_workers, **{**parameters, "memory_limit": None, **options}
    )


def process_ids(client):
    """Those of the workers that answer, by address."""
    return everywhere(client, os.getpid)


def assert_nothing_left(client):
    """No worker holds a part of a fit that is over."""
    assert set(everywhere(client, n_held).values()) == {0}


class Forgetful(LocalSession):
    """Makes all parts anew before every call, as if every worker had died."""

    def _called(self, call):
        self._parts = [self._factory(spec, 1) for spec in self._specs]
        for number, part in enumerate(self._parts):
            part.restore(self.recipe_of(number))
        return super()._called(call)


class ForgetfulExecutor(LocalExecutor):
    def session(self, factory, specs):
        return Forgetful(factory, specs, 1)


class Loses(LocalSession):
    """Makes the first part anew before the first call of a method, as if its worker had died."""

    methods: ClassVar[set[str]] = set()  #: all that were called
    lost_at = ""

    def _called(self, call):
        self.methods.add(call.method)
        if call.method == self.lost_at:
            self.lost_at = ""
            self._parts[0] = self._factory(self._specs[0], 1)
            self._parts[0].restore(self.recipe_of(0))
        return super()._called(call)


class LosingExecutor(LocalExecutor):
    def __init__(self, n_workers, lost_at):
        super().__init__(n_workers)
        self.lost_at = lost_at

    def session(self, factory, specs):
        session = Loses(factory, specs, 1)
        session.lost_at = self.lost_at
        return session
