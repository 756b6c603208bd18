"""Stores and fits for what is to be the same on any number of workers."""

import os
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from sparsecluster import convert
from sparsecluster.run.dask_session import everywhere
from sparsecluster.run.local import LocalExecutor, LocalSession
from sparsecluster.run.session import PartsLost
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


class Losing(LocalSession):
    """Makes parts anew before some calls, as if their workers had died."""

    _went_on = True  # whether parts did something since they were restored

    def losses(self, call):
        """The parts that are lost before this call."""
        raise NotImplementedError

    def made_progress(self):
        self._went_on = True

    def _called(self, call):
        lost = self.losses(call) if self.recover is None or self._went_on else []
        for number in lost:
            self._parts[number] = self._factory(self._specs[number], 1)
            self._left[number] = None
            if self.recover is None:
                self._parts[number].restore(self.recipe_of(number))
        if lost and self.recover is not None and not call.anew:
            self._went_on = False
            if call.changes:
                raise PartsLost
            self.recover()
            self._went_on = True
        return super()._called(call)


class Forgetful(Losing):
    """Loses all parts before every call, but for those by which they are restored."""

    def losses(self, call):
        return range(self.n_parts)


class ForgetfulExecutor(LocalExecutor):
    def session(self, factory, specs):
        return Forgetful(factory, specs, 1)


class Loses(Losing):
    """Loses the first part before the first call of a method."""

    methods: ClassVar[set[str]] = set()  #: all that were called
    lost_at = ""

    def losses(self, call):
        self.methods.add(call.method)
        if call.method != self.lost_at:
            return []
        self.lost_at = ""
        return [0]


class LosingExecutor(LocalExecutor):
    def __init__(self, n_workers, lost_at):
        super().__init__(n_workers)
        self.lost_at = lost_at

    def session(self, factory, specs):
        session = Loses(factory, specs, 1)
        session.lost_at = self.lost_at
        return session
