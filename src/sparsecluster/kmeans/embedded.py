"""K-means in few columns first: rows are embedded and clustered there, and the clusters are lifted.

Liu, Shen and Tsang, "Sparse Embedded k-Means Clustering" (NIPS 2017), Algorithm 1; the iterations
in the original space that may follow are ours."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.empty import refill, warn_if_fewer
from sparsecluster.kmeans.loop import Loop, Task
from sparsecluster.kmeans.runs import Runs
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import drop_clusters
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.resources import threads_for
from sparsecluster.rows.rows import Rows

FINISHES = ("exact", "none")
EMBEDDED = "embedded"  #: the space of a record
# Parameters of transformers that results do not depend on.
WITHOUT_EFFECT = ("n_threads", "memory_limit", "n_jobs", "verbose")


def check_embedding(embedding: Any, n_clusters: int, init: Any) -> None:
    """Refuse what is no embedding, or one that cannot be, before any work."""
    if embedding is None:
        return
    if isinstance(embedding, Integral) or not hasattr(embedding, "fit_transform"):
        number = isinstance(embedding, Integral) and not isinstance(embedding, bool)
        if not number or embedding < 1:
            raise ValueError(
                f"embedding must be a number of components of at least 1, a transformer such as "
                f"SparseEmbedding, or None; got {embedding!r}."
            )
    made = _transformer(embedding, n_clusters, seed=0)
    if hasattr(made, "check_parameters"):
        made.check_parameters()
    if not (isinstance(init, str) or callable(init) or hasattr(made, "transform")):
        raise ValueError(
            f"embedding={made!r} has no method transform, which the centers given as init need: "
            f"start from a name, or use another embedding."
        )


def described(embedding: Any) -> Any:
    """An embedding by its parameters, to tell whether a fit that resumes has the same."""
    if not hasattr(embedding, "get_params"):
        return embedding
    parameters = embedding.get_params()
    kept = {name: value for name, value in parameters.items() if name not in WITHOUT_EFFECT}
    return {"class": type(embedding).__name__, **kept}


def _transformer(embedding: Any, n_clusters: int, seed: int) -> Any:
    """A transformer of its own for a fit; its seed, if it has none, is that of the fit."""
    from sparsecluster import SparseEmbedding  # which this layer knows by its public name

    if isinstance(embedding, Integral):
        return SparseEmbedding(int(embedding), random_state=seed)
    if not hasattr(embedding, "get_params"):
        return copy.deepcopy(embedding)
    made = clone(embedding)
    parameters = made.get_params(deep=False)
    given = {}
    if "random_state" in parameters and parameters["random_state"] is None:
        given["random_state"] = seed
    if isinstance(made, SparseEmbedding) and made.n_components is None and made.n_clusters is None:
        given["n_clusters"] = n_clusters
    return made.set_params(**given)


@dataclass
class EmbeddedFit:
    """A fit by way of an embedding: what it is, and how long it took."""

    embedding: Any
    finish: str
    algorithm: str  #: as asked for
    tol: float
    rows: Rows  #: points of the metric, in all their columns
    seconds: float = field(default=0.0, init=False)

    def run(self, task: Task, init: Any, runs: Runs, seeds: np.ndarray) -> RunState:
        """Cluster the embedded rows, lift the best run, and finish it; `task` is what a run in the
        original space would be. The last of the seeds is that of the embedding."""
        exact = self.finish == "exact"
        own = runs.keeper.run(runs.n_init) if runs.keeper and exact else None
        state = own.resume(task.rows, task.occurring) if own else None
        if state is None:
            # Single moves are for the space that the fit ends in.
            first = replace(runs, refine=None) if exact else runs
            small, small_init = self._embedded(task, init, runs.n_clusters, int(seeds[-1]))
            best = first.best(small, small_init, seeds[:-1])
            # Rows that differ may be equal when embedded; here no cluster need be missing.
            state = lifted(task, best, runs.n_clusters if exact else best.centers.shape[0])
            if not exact:
                return replace(state, finished=True).measured(task.rows, task.setting)
            if best.stopped:
                loop = Loop(task, state)
                loop.stopped = True
                return loop.finish()
            if own:
                own.reached(state, save=True)
        n_before = sum(record.space == EMBEDDED for record in state.history)
        run = state.history[0].run if state.history else 0
        # Each space has `max_iter` iterations.
        task = replace(task, max_iter=task.max_iter + n_before, run=run)
        return runs.continued(task, state, own)

    def _embedded(self, task: Task, init: Any, n_clusters: int, seed: int) -> tuple[Task, Any]:
        """What a run in the embedded space is to do, and where it starts."""
        started = time.perf_counter()
        transformer = _transformer(self.embedding, n_clusters, seed)
        rows = self._transformed(transformer, task)
        setting = task.setting
        rows = setting.metric.rows(rows, n_threads=setting.n_threads, zero_rows="first")
        if not (isinstance(init, str) or callable(init)):
            init = transformer.transform(setting.metric.centers(init))
        columns = _core.column_stats(rows.core, setting.weights)
        # Rows of a file may be streamed; these are in memory.
        in_memory = self.algorithm == "auto" and task.bounds is None
        n_threads = threads_for(rows.core.nnz * n_clusters, setting.n_threads)
        small = replace(
            task,
            rows=rows,
            columns=columns,
            setting=replace(setting, n_threads=n_threads),
            algorithm="auto" if in_memory else task.algorithm,
            tolerance=self.tol * columns.mean_variance,
            space=EMBEDDED,
            warns=self.finish != "exact",
            lift=partial(_means, task),
        )
        self.seconds = time.perf_counter() - started
        return small, init

    def _transformed(self, transformer: Any, task: Task) -> Rows:
        """The embedded rows."""
        from sparsecluster import SparseEmbedding

        rows, setting = self.rows, task.setting
        if isinstance(transformer, SparseEmbedding):
            if transformer.n_threads is None:
                transformer.set_params(n_threads=setting.n_threads)
            if transformer.memory_limit is None:
                transformer.set_params(memory_limit=setting.memory_limit)
            made = transformer.fit_transform(rows)
        elif rows.streamed:
            raise ValueError(
                f"The rows are larger than memory, and {type(transformer).__name__} needs all of "
                f"them at once. Use a SparseEmbedding."
            )
        else:
            made = transformer.fit_transform(rows.matrix)
        embedded = enter(made, n_threads=setting.n_threads, name="The embedded X")
        if embedded.n_rows != rows.n_rows:
            raise ValueError(
                f"{type(transformer).__name__} made {embedded.n_rows} rows of {rows.n_rows}."
            )
        return embedded


def lifted(task: Task, found: RunState, n_clusters: int) -> RunState:
    """The same partition with the centers of its rows in the original space; clusters without rows,
    which the last assignment may have left, get the farthest ones."""
    rows, setting, labels = task.rows, task.setting, found.labels.copy()
    centers = _means(task, labels, n_clusters)
    if task.bounds is None:
        refilled, hopeless = refill(rows, centers, labels, setting.weights, setting)
        if hopeless:
            warn_if_fewer(n_clusters - len(hopeless), n_clusters)
            centers = drop_clusters(centers, labels, hopeless)
        if refilled:
            centers = _means(task, labels, centers.n_clusters)
    return replace(
        found,
        centers=centers_.from_core(centers),
        labels=labels,
        basis=None,
        inertia=np.inf,
        finished=False,
    )


def _means(task: Task, labels: np.ndarray, n_clusters: int) -> _core.Centers:
    """The centers of these clusters; one that has none is at the row where it is looked for."""
    rows, setting = task.rows, task.setting
    counts = setting.metric.useful(rows.core.norm2)
    if setting.weights is not None:
        counts &= setting.weights > 0
    members = np.flatnonzero(counts)
    known, first = np.unique(labels[members], return_index=True)
    starts = np.full(n_clusters, members[0], dtype=np.int64)
    starts[known] = members[first]
    centers = centers_.to_core(setting.metric.centers(sp.csr_array(rows.take(starts))))
    sums = _core.Sums(
        rows.core, task.columns, setting.weights, n_clusters, setting.metric.space, task.limit
    )
    sums.update(labels, centers, setting.n_threads)
    return centers
