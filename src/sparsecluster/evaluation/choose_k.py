"""How many clusters there are: clusterings of growing K, judged, and one of them recommended."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sparsecluster import _core
from sparsecluster.evaluation.agreement import adjusted_rand
from sparsecluster.evaluation.chain import Chain, Link, apart
from sparsecluster.evaluation.choice import Choice, ChoiceRecord, as_table, made_choice
from sparsecluster.evaluation.geometry import Geometry
from sparsecluster.evaluation.labelling import Labelling
from sparsecluster.evaluation.neighbors import Neighbors
from sparsecluster.evaluation.recommend import candidates, recommend
from sparsecluster.evaluation.search_state import SearchState
from sparsecluster.evaluation.silhouette_values import (
    silhouettes,
    silhouettes_beside,
    simplified_beside,
    simplified_silhouettes,
)
from sparsecluster.kmeans.assignment import choose_algorithm
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.errors import counted
from sparsecluster.rows.metric import METRICS, ZERO_ROWS, metric_of
from sparsecluster.rows.parameters import Number, check_name, check_number
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.sharing import share_out
from sparsecluster.storage.checkpoint import (
    check_folder,
    fingerprint,
    open_checkpoint,
    seconds,
)

# Rows of a sample: so many per cluster of the largest K, and no more than half of all.
SAMPLE_PER_CLUSTER, LEAST_SAMPLE = 30, 1000
# Of the sum of all weights, of which fourth powers have to be finite.
MOST_BITS_OF_WEIGHTS = 200
Judged = tuple[tuple[float, float], tuple[float, float]]
#: Called after each K; a true answer ends the search.
ChoiceCallback = Callable[[ChoiceRecord], Any]


def choose_k(
    X: Any,
    k_range: Iterable[int],
    *,
    metric: str = "euclidean",
    zero_rows: str = "error",
    n_init: int = 3,
    n_resamples: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    sample_weight: Any = None,
    random_state: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    callback: ChoiceCallback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float | str = 60,
) -> Choice:
    """Cluster the rows into every number of clusters of a range, and recommend one.

    The clustering of the smallest K is the best of some runs of k-means. Each further one begins
    with the one before: the clusters whose split in two lowers the cost most are split, then all
    rows move, and if merging two clusters costs less than splitting another gains, that is done,
    too. So the cost falls with K, and all of them together take a fraction of the time of as many
    separate fits.

    The recommendation is the K of the highest mean simplified silhouette. Where others are within
    their standard error of it, the most stable of them is taken. The knee of the cost curve (the
    point farthest below the line between its ends, both axes scaled to one) is told beside it, and
    `doubt` says what speaks against the choice.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    k_range : iterable of int
        The numbers of clusters to try, from 2 to less than the number of rows: ``range(2, 61)``.
    metric : {"euclidean", "cosine"}, default="euclidean"
        How rows are compared, as for :class:`KMeans`. Silhouettes are by squared distances, or by
        1 - cos. Use "cosine" for text: by distances one tight cluster apart from diffuse rows may
        hide all others, and the answer is 2.
    zero_rows : {"error", "first"}, default="error"
        With "cosine", what to do with rows of zeros: refuse them, or put them into the first
        cluster.
    n_init : int, default=3
        Runs from k-means++ for the smallest K.
    n_resamples : int, default=1
        Samples of the rows that are clustered too, for the stability. Each has 30 rows per cluster
        of the largest K, at least 1,000, and at most half of the rows. 0 for no stability.
    max_iter, tol : int, float, default=300, 1e-4
        When k-means stops, as for :class:`KMeans`. Beyond the smallest K a run also ends when an
        iteration takes less than 5% off what the run took off the cost.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    random_state : int, RandomState or None, default=None
        Seed of starts and samples.
    n_threads : int, default=None
        Threads to use; all CPUs by default. No result depends on it.
    memory_limit : int or str, default=None
        Bytes, or like "2GB", beyond the data; by default half of what is free.
    callback : callable, default=None
        Called with a :class:`ChoiceRecord` after each K; a true answer ends the search, and the
        recommendation is made from what there is.
    checkpoint : str, path or None, default=None
        A folder that keeps the state of the search, so that it resumes there if it was killed, as
        for :class:`KMeans`.
    checkpoint_every : float or str, default=60
        Seconds (or "90s", "5m", "1h") after which a K is followed by a checkpoint.

    Returns
    -------
    Choice

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import choose_k
    >>> X = np.add.outer([0, 10, 30], np.linspace(0, 1, 20)).reshape(-1, 1)
    >>> choice = choose_k(X, range(2, 7), random_state=0)
    >>> choice.k
    3
    >>> bool(np.all(np.diff(choice.table["cost"]) < 0))
    True
    """
    check_name("metric", metric, METRICS)
    check_name("zero_rows", zero_rows, ZERO_ROWS)
    check_number("n_init", n_init, Integral, 1)
    check_number("n_resamples", n_resamples, Integral, 0)
    check_number("max_iter", max_iter, Integral, 1)
    Number(0).check("tol", tol)
    if checkpoint is not None:
        check_folder(checkpoint)
    seconds(checkpoint_every)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, got {callback!r}.")
    ks = _checked_range(k_range)
    limit, threads = effective_memory_limit(memory_limit), effective_n_threads(n_threads)
    chance = check_random_state(random_state)
    entered = enter(X, n_threads=threads)
    if ks[-1] >= entered.n_rows:
        raise ValueError(
            f"k_range goes up to {ks[-1]}, and X has {counted(entered.n_rows, 'row')}: at most "
            f"{counted(entered.n_rows - 1, 'cluster')} can be judged."
        )
    weights = check_weights(sample_weight, entered)
    deciding = {
        "k_range": np.array(ks),
        "metric": metric,
        "zero_rows": zero_rows,
        "n_init": n_init,
        "n_resamples": n_resamples,
        "max_iter": max_iter,
        "tol": tol,
        "random_state": random_state,
        "judged_by": "simplified silhouette",
    }
    same = {} if checkpoint is None else fingerprint(deciding, entered, weights)
    weights, unit = _moderate(weights)
    points = metric_of(metric).rows_to_fit(
        entered, n_threads=threads, zero_rows=zero_rows, memory_limit=limit
    )
    occurring = None if points.in_file else Columns.occurring(points)
    if occurring is not None:
        points = occurring.rows(points, n_threads=threads)
    columns = _core.column_stats(points.core, weights, threads)
    setting = SeedSetting(
        random_state=chance,
        weights=weights,
        memory_limit=limit,
        n_threads=threads_for(points.core.nnz * ks[-1], threads),
        metric=metric_of(metric),
    )
    task = Task(
        rows=points,
        setting=setting,
        columns=columns,
        algorithm=choose_algorithm("auto", points, ks[-1], limit),
        max_iter=max_iter,
        tolerance=tol * columns.mean_variance,
    )
    seeds = chance.randint(np.iinfo(np.int32).max, size=1 + n_resamples)
    with open_checkpoint(checkpoint, same, checkpoint_every) as saved:
        seeds = saved.seeds(seeds) if saved else seeds
        search = Search(task, ks, seeds, n_init, unit)
        file = saved.run(0) if saved else None
        search.run(callback, file)
    advice = recommend(search.table, complete=search.complete, too_many=search.too_many)
    labels, centers = search.state.kept[advice.k]
    centers = centers if occurring is None else occurring.outside(centers)
    shown = centers if entered.sparse else centers.toarray()
    return made_choice(advice, search.table, labels, shown, metric)


def _moderate(weights: np.ndarray | None) -> tuple[np.ndarray | None, float]:
    """Weights in a unit in which their squares do not overflow, and the unit: a power of two, by
    which no digit changes."""
    if weights is None:
        return None, 1.0
    unit = math.ldexp(1.0, max(math.frexp(weights.sum())[1] - MOST_BITS_OF_WEIGHTS, 0))
    return weights / unit, unit


def _checked_range(k_range: Any) -> list[int]:
    """The numbers to try, ascending."""
    if isinstance(k_range, str | bytes) or not isinstance(k_range, Iterable):
        raise ValueError(f"k_range must be integers, as range(2, 61), got {k_range!r}.")
    ks = list(k_range)
    if not ks:
        raise ValueError("k_range is empty: there is no number of clusters to try.")
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 2:
            raise ValueError(f"k_range must hold integers of at least 2, got {k!r}.")
    return sorted({int(k) for k in ks})


class Search:
    """One K after the other: a chain on all rows, and one on each sample."""

    def __init__(
        self, task: Task, ks: list[int], seeds: np.ndarray, n_init: int, unit: float
    ) -> None:
        self._task, self._ks, self._n_init = task, ks, n_init
        self._unit = unit  # of the weights
        self._samples = [self._sample(int(seed)) for seed in seeds[1:]]
        tasks = [task, *(self._on_sample(sample) for sample in self._samples)]
        self._chains = [Chain(one, int(seed)) for one, seed in zip(tasks, seeds, strict=True)]
        to_means = task.setting.metric.centers_are_means
        memory_limit = task.setting.memory_limit // 4
        self._neighbors = Neighbors(task.rows, memory_limit, to_means=to_means)
        self.state = SearchState()
        self.too_many: int | None = None  #: the K that X has too few distinct rows for

    @property
    def table(self) -> np.ndarray:
        return as_table(self.state.records)

    @property
    def complete(self) -> bool:
        """Whether all of the range was tried."""
        return len(self.state.records) == len(self._ks)

    def run(self, callback: ChoiceCallback | None, file: Any) -> None:
        """Try what is left of the range; the state is kept in the file, if there is one."""
        if file is not None:
            self.state = SearchState.load(file, self._sizes) or self.state
        try:
            for k in self._ks[len(self.state.records) :]:
                record = self._try(k)
                if record is None:
                    self.too_many = k
                    break
                if file is not None and file.due:
                    self.state.save(file)
                if callback is not None and callback(record):
                    break
        finally:
            # Also when it is cut short: after the last K that is whole.
            if file is not None and self.state.records:
                self.state.save(file)
        if not self.state.records:
            raise ValueError(
                f"X has too few distinct rows for {counted(self._ks[0], 'cluster')}, the least of "
                f"k_range."
            )

    @property
    def _sizes(self) -> list[int]:
        return [self._task.rows.n_rows, *(len(sample) for sample in self._samples)]

    def _try(self, k: int) -> ChoiceRecord | None:
        begun = time.perf_counter()
        found = self._side_by_side(k)
        links = [link for link, _ in found]
        link, judged = found[0]
        if link is None or judged is None:
            return None
        (mean, error), (simplified, simplified_error) = judged
        record = ChoiceRecord(
            k=k,
            cost=link.cost * self._unit,
            silhouette=mean,
            silhouette_error=error,
            simplified_silhouette=simplified,
            simplified_error=simplified_error,
            stability=self._stability(links),
            iterations=link.iterations,
            seconds=time.perf_counter() - begun,
        )
        records = [*self.state.records, record]
        table = as_table(records)
        near = candidates(table["k"], table["simplified_silhouette"], table["simplified_error"])
        kept = {**self.state.kept, k: (link.labels, link.centers)}
        self.state = SearchState(
            records=records, links=links, kept={k: kept[k] for k in near.tolist()}
        )
        return record

    def _side_by_side(self, k: int) -> list[tuple[Link | None, Judged | None]]:
        """The links of all chains at this K, and what the silhouettes of the first one are."""
        token = _core.StopToken()

        def work(number: int) -> tuple[Link | None, Judged | None]:
            token.watch()
            try:
                link = self._reached(number, k)
                whole = number == 0 and link is not None and link.k == k
                return link, self._silhouettes(link) if whole and link is not None else None
            finally:
                token.unwatch()

        with warnings.catch_warnings():
            # Of a K that has not settled, or that has too few distinct rows: it is seen here.
            warnings.simplefilter("ignore", ConvergenceWarning)
            n_threads = self._task.setting.n_threads
            return share_out(work, len(self._chains), n_threads, call_off=token.stop)

    def _reached(self, number: int, k: int) -> Link | None:
        """The link of a chain at this K; None, or a link of fewer, where it has ended."""
        chain, size = self._chains[number], self._sizes[number]
        before = self.state.links[number] if self.state.links else None
        if not self.state.links:
            return chain.first(k, self._n_init) if k < size else None
        return chain.next(before, k) if before is not None and k < size else before

    def _silhouettes(self, link: Link) -> Judged:
        """The mean silhouette and its standard error, and the same of the simplified one."""
        geometry = self._geometry(link)
        if geometry.points.streamed:
            exact, _ = silhouettes(geometry)
            simplified = simplified_silhouettes(geometry, root=False)
        else:
            by_rows, by_centers = self._neighbors.beside(geometry)
            exact = silhouettes_beside(geometry, by_rows)
            simplified = simplified_beside(geometry, by_centers, root=False)
        return self._mean_and_error(exact), self._mean_and_error(simplified)

    def _mean_and_error(self, values: np.ndarray) -> tuple[float, float]:
        weights = self._task.setting.weights
        mean = float(np.average(values, weights=weights))
        variance = float(np.average((values - mean) ** 2, weights=weights))
        n_rows = len(values) if weights is None else np.count_nonzero(weights)
        return mean, float(np.sqrt(variance / n_rows))

    def _geometry(self, link: Link) -> Geometry:
        rows, setting = self._task.rows, self._task.setting
        weights = np.ones(rows.n_rows) if setting.weights is None else setting.weights
        labelling = Labelling(
            rows=rows,
            numbers=link.labels,
            clusters=np.arange(link.k),
            weights=weights,
            n_threads=setting.n_threads,
            memory_limit=setting.memory_limit,
        )
        if setting.metric.centers_are_means:
            return Geometry(
                labelling=labelling,
                points=rows,
                scales=None,
                zero=None,
                given_means=link.centers,
                given_distances=self._chains[0].distances(link),
            )
        # The mean of unit rows is as long as their mean cosine with its direction.
        norm2 = rows.core.norm2
        whole = Geometry(labelling=labelling, points=rows, scales=None, zero=norm2 == 0)
        cosines = (norm2 + 1.0 - self._chains[0].distances(link)) / 2
        lengths = labelling.total(weights * np.where(norm2 > 0, cosines, 0.0))
        lengths /= np.where(whole.weights > 0, whole.weights, 1.0)
        means = link.centers.copy()
        means.data *= np.repeat(lengths, np.diff(means.indptr))
        return replace(whole, given_means=means)

    # --- samples ------------------------------------------------------------------------------

    def _sample(self, seed: int) -> np.ndarray:
        rows, weights = self._task.rows, self._task.setting.weights
        useful = self._task.setting.metric.useful(rows.core.norm2)
        eligible = np.flatnonzero(useful if weights is None else useful & (weights > 0))
        most = max(SAMPLE_PER_CLUSTER * self._ks[-1], LEAST_SAMPLE)
        drawn = np.random.RandomState(seed).permutation(eligible)
        return np.sort(drawn[: min(len(eligible) // 2, most)])

    def _on_sample(self, sample: np.ndarray) -> Task:
        setting = self._task.setting
        rows, _ = apart(self._task.rows, sample)
        weights = None if setting.weights is None else setting.weights[sample]
        # Beside the work on all rows, which has the other threads.
        own = replace(setting, weights=weights, n_threads=1)
        columns = _core.column_stats(rows.core, weights)
        return replace(self._task, rows=rows, setting=own, columns=columns)

    def _stability(self, links: list[Link | None]) -> float:
        """How well the samples agree with all rows, on their own rows."""
        whole, weights, found = links[0], self._task.setting.weights, []
        assert whole is not None
        for sample, link in zip(self._samples, links[1:], strict=True):
            if link is None or link.k < whole.k:
                return float("nan")
            of_rows = None if weights is None else weights[sample]
            agreed = adjusted_rand(whole.labels[sample], link.labels, sample_weight=of_rows)
            found.append(agreed)
        return float(np.mean(found)) if found else float("nan")
