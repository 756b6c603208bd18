"""K-means on sparsified rows: distances over the entries that were kept, means of those observed.

Pourkamali-Anaraki and Becker (2017), their sparsified K-means; see sparsification.py."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.embedding.hashing import seed_of
from sparsecluster.embedding.mixing import Mixer
from sparsecluster.embedding.reducing import refuse_beyond
from sparsecluster.embedding.sparsification import check_room, sparsified
from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.parameters import By, Number, integer
from sparsecluster.rows.resources import effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.rows.sharing import share_out
from sparsecluster.storage.fields import FLAG, INTEGER, LABELS, NUMBER, SECONDS, Array

BLOCK_CELLS = 1 << 18  # rows x clusters that are compared at once


@dataclass(frozen=True)
class Observed:
    """Rows of as many observed entries each, in float64, and their weights."""

    values: sp.csr_array
    pattern: sp.csr_array  #: ones in place of the values
    weights: np.ndarray
    n_threads: int

    @classmethod
    def of(cls, rows: sp.csr_array, weights: np.ndarray | None, n_threads: int) -> Observed:
        values = sp.csr_array(rows, dtype=np.float64)
        ones = np.ones_like(values.data)
        pattern = sp.csr_array((ones, values.indices, values.indptr), shape=values.shape)
        if weights is None:
            weights = np.ones(values.shape[0])
        return cls(values, pattern, weights, n_threads)

    def nearest(self, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest center of each row over its observed entries, and the squared distance."""
        n_rows, n_clusters = self.values.shape[0], len(centers)
        labels, distances = np.empty(n_rows, dtype=np.int32), np.empty(n_rows)
        products, squares = np.ascontiguousarray(-2 * centers.T), np.ascontiguousarray(centers.T**2)
        at_once = max(1, BLOCK_CELLS // n_clusters)

        def compare(number: int) -> None:
            some = slice(number * at_once, min((number + 1) * at_once, n_rows))
            scores = self.values[some] @ products
            scores += self.pattern[some] @ squares
            best = scores.argmin(axis=1)
            labels[some] = best
            distances[some] = self.distances(centers, best, some)

        work = 2 * self.values.nnz * n_clusters
        share_out(compare, -(-n_rows // at_once), threads_for(work, self.n_threads))
        return labels, distances

    def distances(self, centers: np.ndarray, labels: np.ndarray, some: slice) -> np.ndarray:
        """Squared distances of some rows to their centers, over observed entries."""
        per_row = self.values.indptr[1]
        entries = slice(some.start * per_row, some.stop * per_row)
        columns = self.values.indices[entries].reshape(-1, per_row)
        apart = self.values.data[entries].reshape(-1, per_row) - centers[labels[:, None], columns]
        return np.square(apart).sum(axis=1)

    def all_distances(self, centers: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Those of all rows."""
        n_rows = self.values.shape[0]
        at_once = max(1, BLOCK_CELLS // int(self.values.indptr[1]))
        blocks = [slice(begin, min(begin + at_once, n_rows)) for begin in range(0, n_rows, at_once)]
        return np.concatenate([self.distances(centers, labels[some], some) for some in blocks])

    def cost(self, distances: np.ndarray) -> float:
        """The weighted sum; not by BLAS, whose rounding may depend on its threads."""
        return float((self.weights * distances).sum())

    def means(self, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Means of the observed entries of each cluster; zero where none was observed."""
        places = (labels, np.arange(len(labels)))
        members = sp.csr_array((self.weights, places), shape=(n_clusters, len(labels)))
        sums, counts = (members @ self.values).toarray(), (members @ self.pattern).toarray()
        return np.divide(sums, counts, out=sums, where=counts > 0)

    def refill(self, labels: np.ndarray, distances: np.ndarray, n_clusters: int) -> None:
        """Give each empty cluster the farthest row that is not alone in its own, in place."""
        counted = self.weights > 0
        sizes = np.bincount(labels[counted], minlength=n_clusters)
        empty = np.flatnonzero(sizes == 0).tolist()
        if not empty:
            return
        for row in np.argsort(-np.where(counted, distances, 0.0), kind="stable"):
            if not empty or distances[row] == 0:
                return
            if counted[row] and sizes[labels[row]] > 1:
                sizes[labels[row]] -= 1
                labels[row] = empty.pop(0)


class SparsifiedKMeans(ClusterMixin, SparseEstimator):
    """K-means on rows that were mixed by a random rotation and sampled.

    The rows are those of :class:`Sparsification`, of `n_components` entries each. A row is compared
    with a center over the entries that were kept of it; a center is, entry by entry, the mean of
    those that were observed in its cluster. Both lower the same cost, so it never goes up. In the
    end the rotation is undone.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_components : int, default=100
        Entries that are kept of each row, at most the next power of two columns.
    n_init : int, default=1
        Runs from different starting centers, of which the one of the lowest cost is kept.
    max_iter : int, default=100
        Most iterations of a run.
    tol : float, default=1e-6
        A run ends when the cost falls by at most this share, or no row moves.
    random_state : int, RandomState or None, default=None
        Of the rotation, the draws and the starting centers.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") for the sparsified rows and the centers, which are dense; more is refused
        before any work. By default half of the memory that is free.

    Attributes
    ----------
    labels_ : ndarray of int32
        The cluster of each row, as `predict` gives it.
    cluster_centers_ : ndarray of shape (n_clusters_, n_features)
        The centers in the columns of X.
    mixed_centers_ : ndarray of shape (n_clusters_, p)
        The centers in the mixed columns, by which rows are compared.
    inertia_ : float
        The estimated cost: weighted squared distances over observed entries, by p / n_components.
    n_clusters_ : int
        Number of clusters: fewer than asked for where X has fewer distinct rows.
    n_iter_ : int
        Iterations of the run that was kept.
    converged_ : bool
        Whether it ended by itself.
    seed_ : int
        Of the rotation and the draws.
    seconds_ : dict
        Seconds that "sparsification" and "clustering" took, and the "total".

    Notes
    -----
    Starting centers are drawn as in k-means++, by the estimated distances. X being at hand, a row
    that becomes a starting center does so with all of its entries.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import SparsifiedKMeans
    >>> X = np.repeat([[9.0, 0, 0, 1], [0, 7, 0, 2], [0, 1, 8, 0]], 4, axis=0)
    >>> model = SparsifiedKMeans(3, n_components=2, random_state=0).fit(X)
    >>> sorted(np.bincount(model.labels_).tolist())
    [4, 4, 4]
    """

    _parameters = {
        name: SparseEstimator._parameters[name] for name in ("n_threads", "memory_limit")
    } | {
        "n_clusters": integer(1),
        "n_components": integer(1),
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": Number(),
        "random_state": By(check_random_state),
    }
    _fitted = SparseEstimator._fitted | {
        "labels_": LABELS,
        "cluster_centers_": Array(np.float64, 2),
        "mixed_centers_": Array(np.float64, 2),
        "inertia_": NUMBER,
        "n_clusters_": INTEGER,
        "n_iter_": INTEGER,
        "converged_": FLAG,
        "seed_": INTEGER,
        "seconds_": SECONDS,
    }

    labels_: np.ndarray
    cluster_centers_: np.ndarray
    mixed_centers_: np.ndarray
    seed_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int = 100,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> SparsifiedKMeans:
        """Sparsify the rows of X, and cluster them.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, not negative.
        feature_names : sequence of str, optional
            Names of the columns, kept as `feature_names_`.
        """
        started = time.perf_counter()
        self.check_parameters()
        rows = self._enter(X, reset=True)
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        if rows.n_rows < self.n_clusters:
            raise ValueError(f"n_samples={rows.n_rows} should be >= n_clusters={self.n_clusters}.")
        self._check_memory(rows)
        n_threads = effective_n_threads(self.n_threads)
        random_state = check_random_state(self.random_state)
        mixer = Mixer(seed_of(self.random_state), rows.n_features)
        kept = sparsified(rows, mixer, self.n_components, n_threads)
        reduced = time.perf_counter()
        observed = Observed.of(kept, weights, n_threads)
        runs = [
            self._run(
                observed, starting_centers(observed, rows, mixer, self.n_clusters, random_state)
            )
            for _ in range(self.n_init)
        ]
        best = min(runs, key=lambda run: run[2])
        labels, centers, cost, self.n_iter_, self.converged_ = best
        if not self.converged_:
            warnings.warn(
                f"Stopped after max_iter={self.max_iter} iterations, before the cost had settled.",
                ConvergenceWarning,
                stacklevel=2,
            )
        warn_if_fewer(len(centers), self.n_clusters)
        self.seed_, self.n_clusters_ = mixer.seed, len(centers)
        self.labels_, self.mixed_centers_ = labels, centers
        self.cluster_centers_ = mixer.unmix(centers)
        self.inertia_ = float(cost * mixer.length / self.n_components)
        ended = time.perf_counter()
        self.seconds_ = {"sparsification": reduced - started, "clustering": ended - reduced}
        self.seconds_["total"] = ended - started
        self._remember(rows, names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The nearest center of each row of X, over the entries that are kept of it.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        """
        check_is_fitted(self, "mixed_centers_")
        rows = self._enter(X, reset=False)
        self._check_memory(rows)
        n_threads = effective_n_threads(self.n_threads)
        mixer = Mixer(self.seed_, self.n_features_in_)
        observed = sparsified(rows, mixer, self.n_components, n_threads)
        return Observed.of(observed, None, n_threads).nearest(self.mixed_centers_)[0]

    def _run(
        self, observed: Observed, centers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, int, bool]:
        """Labels, centers, cost over observed entries, iterations, and whether they settled."""
        n_clusters, before, cost, iteration = len(centers), None, np.inf, 0
        while iteration < self.max_iter:
            iteration += 1
            labels, distances = observed.nearest(centers)
            observed.refill(labels, distances, n_clusters)
            settled = before is not None and np.array_equal(labels, before)
            if settled:
                break
            before, centers = labels, observed.means(labels, n_clusters)
            now = observed.cost(observed.all_distances(centers, labels))
            settled, cost = cost - now <= self.tol * now, now
            if settled:
                break
        # The labels of these centers, as `predict` finds them.
        labels, distances = observed.nearest(centers)
        return labels, centers, observed.cost(distances), iteration, settled

    def _check_memory(self, rows: Rows) -> None:
        check_room(rows, self.n_components, self.memory_limit)
        length = 1 << (rows.n_features - 1).bit_length()
        entries = rows.n_rows * self.n_components * (8 + 8 + 4 + 8)
        needed = entries + 6 * 8 * length * self.n_clusters
        advice = "Keep fewer n_components, or take SparseEmbedding and KMeans"
        what = "The sparsified X with its dense centers"
        refuse_beyond(needed, self.memory_limit, what, advice)

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self, "mixed_centers_")
        return super().get_state()

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves."""
        super().set_state(state, verify=verify)
        length = 1 << (self.n_features_in_ - 1).bit_length()
        shapes = self.mixed_centers_.shape, self.cluster_centers_.shape
        n_clusters = self.n_clusters_
        if shapes != ((n_clusters, length), (n_clusters, self.n_features_in_)):
            raise ValueError("has centers of other columns or clusters")


def starting_centers(
    observed: Observed,
    rows: Rows,
    mixer: Mixer,
    n_clusters: int,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """Mixed rows, drawn one by one in proportion to the squared distance to those before."""
    n_rows = rows.n_rows
    potential = np.ones(n_rows)
    nearest = np.full(n_rows, np.inf)
    centers = np.empty((n_clusters, mixer.length))
    for number in range(n_clusters):
        shares = np.cumsum(potential * observed.weights)
        if not shares[-1] > 0:
            return centers[:number]
        row = int(np.searchsorted(shares, random_state.random_sample() * shares[-1], side="right"))
        centers[number : number + 1] = mixer.mix(rows.take(np.array([min(row, n_rows - 1)])))
        one = np.full(n_rows, number)
        nearest = np.minimum(nearest, observed.all_distances(centers, one))
        potential = np.where(nearest > 1e-12 * nearest.max(), nearest, 0.0)
    return centers
