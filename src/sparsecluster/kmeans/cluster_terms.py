"""What clusters by centers are about: terms that tell them apart, and clusters that are alike."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.parameters import Positive, check_name, check_number
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import as_rows

METHODS = ("c-tf-idf", "log-odds")
BLOCK = 512  # centers that are compared with all others at a time
PART = 1 << 20


class ClusterTerms:
    """Terms and similarity of clusters, for estimators with `cluster_centers_`."""

    # What the estimator has.
    cluster_centers_: Any
    feature_names_: Any
    n_threads: int | None

    def check_is_fitted(self) -> None:
        """Raise NotFittedError where there are no centers yet."""
        raise NotImplementedError

    def distinguishing_terms(
        self,
        n_terms: int = 10,
        *,
        method: str = "c-tf-idf",
        prior: float = 1.0,
        feature_names: Any = None,
    ) -> list[list[str]]:
        """The columns that tell each cluster from the others, the most telling first.

        Where `top_terms` has what is large in a cluster, and so often what is large in all of them,
        this compares the clusters.

        Parameters
        ----------
        n_terms : int, default=10
            How many to name for each cluster.
        method : {"c-tf-idf", "log-odds"}, default="c-tf-idf"
            "c-tf-idf" is tf-idf with a cluster in the place of a document: the share of a column in
            the sum of a cluster, times log(1 + mean sum of a cluster / sum of the column)
            (Grootendorst 2022). "log-odds" is the logarithm of the odds of a column in a cluster
            against those in all others, over its standard error, with a Dirichlet prior (Monroe,
            Colaresi and Quinn 2008): it asks for evidence, and so prefers frequent columns.
        prior : float, default=1.0
            How much the prior of "log-odds" weighs, in units of a cluster of mean size; it is
            spread over the columns as they are in all rows. A larger one shrinks rare columns more.
        feature_names : sequence of str, optional
            Names of the columns, as for :meth:`top_terms`.

        Notes
        -----
        The sum of a cluster is its center times its weight, for centers by cosine too. Values must
        not be negative.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import KMeans
        >>> X = np.array([[5.0, 2, 0], [5, 3, 0], [5, 0, 2], [5, 0, 3]])
        >>> km = KMeans(2, init=X[[0, 2]]).fit(X, feature_names=["the", "cat", "dog"])
        >>> km.top_terms(1), km.distinguishing_terms(1)
        ([['the'], ['the']], [['cat'], ['dog']])
        """
        self.check_is_fitted()
        check_number("n_terms", n_terms, Integral, 1)
        check_name("method", method, METHODS)
        Positive().check("prior", prior)
        centers = sp.csr_array(self.cluster_centers_)
        names = self._column_names(feature_names, centers.shape[1])
        if centers.nnz and centers.data.min() < 0:
            raise ValueError(
                "distinguishing_terms needs values that are not negative, such as counts or "
                "tf-idf; the centers have some below zero."
            )
        weights = self._weights_of_clusters()
        sums = sp.csr_array(sp.diags_array(weights) @ centers)
        scores = _c_tf_idf(sums) if method == "c-tf-idf" else _log_odds(sums, float(prior))
        return largest_terms(scores, int(n_terms), names)

    def similar_clusters(self, threshold: float = 0.8) -> list[tuple[int, int, float]]:
        """Pairs of clusters that are nearly equal, with their similarity, the most similar first.

        The similarity of two centers a and b is 2ab / (aa + bb): 1 if they are equal, 0 if they
        have nothing in common; by cosine it is their cosine. `merge` makes one of them.

        Parameters
        ----------
        threshold : float, default=0.8
            The least similarity of a pair, above 0 and at most 1.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import KMeans
        >>> X = np.array([[9.0, 0], [9, 1], [0, 5]])
        >>> [(a, b, round(s, 3)) for a, b, s in KMeans(3, init=X).fit(X).similar_clusters()]
        [(0, 1, 0.994)]
        """
        self.check_is_fitted()
        Positive().check("threshold", threshold)
        if threshold > 1:
            raise ValueError(f"threshold must be at most 1, got {threshold!r}.")
        centers = sp.csr_array(self.cluster_centers_, dtype=np.float64)
        rows, core = as_rows(centers, n_threads=1), centers_.to_core(centers)
        norm2, n_clusters = rows.core.norm2, centers.shape[0]
        found: list[tuple[int, int, float]] = []
        for begin in range(0, n_clusters, BLOCK):
            block = np.arange(begin, min(begin + BLOCK, n_clusters))
            apart = np.empty((len(block), n_clusters))
            n_threads = effective_n_threads(self.n_threads)
            _core.all_distances(rows.select(block).core, core, apart, n_threads)
            both = norm2[block, None] + norm2
            # Two centers that are zero are equal.
            similarity = 1 - np.divide(apart**2, both, out=np.zeros_like(both), where=both > 0)
            near = (similarity >= threshold - 1e-12) & (block[:, None] < np.arange(n_clusters))
            for one, other in np.argwhere(near).tolist():
                found.append((begin + one, other, float(similarity[one, other])))
        return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))

    def _column_names(self, given: Any, n_features: int) -> Any:
        """Names of the columns: those given, those of the fit, those of its frame, or none."""
        names = check_feature_names(given, n_features)
        if names is None:
            names = self.feature_names_
        return getattr(self, "feature_names_in_", []) if names is None else names

    def _weights_of_clusters(self) -> np.ndarray:
        """Weight of the rows of each cluster, as far as the model knows it."""
        n_clusters = self.cluster_centers_.shape[0]
        for name in ("counts_", "cluster_weights_"):
            if hasattr(self, name):
                return np.asarray(getattr(self, name), dtype=np.float64)
        if hasattr(self, "labels_"):
            return cluster_weights(self.labels_, None, n_clusters)
        raise ValueError(
            "The model does not know how large its clusters are: it was saved without labels by an "
            "older version. Fit or save it again."
        )


def cluster_weights(labels: np.ndarray, weights: np.ndarray | None, n_clusters: int) -> np.ndarray:
    """Weight of the rows of each cluster."""
    total = np.zeros(n_clusters)
    # A part at a time, because numpy counts on a copy of 64 bits.
    for begin in range(0, len(labels), PART):
        part = slice(begin, begin + PART)
        of_rows = None if weights is None else weights[part]
        total += np.bincount(labels[part], of_rows, minlength=n_clusters)
    return total


def largest_terms(scores: sp.csr_array, n_terms: int, names: Any) -> list[list[str]]:
    """The columns with the largest values above zero of each row, by name, largest first."""
    terms = []
    for begin, end in zip(scores.indptr[:-1], scores.indptr[1:], strict=True):
        values = scores.data[begin:end]
        order = np.argsort(-values, kind="stable")[:n_terms]
        columns = scores.indices[begin:end][order[values[order] > 0]]
        terms.append([str(names[c]) if c < len(names) else f"x{c}" for c in columns])
    return terms


def _c_tf_idf(sums: sp.csr_array) -> sp.csr_array:
    """The share of a column in a cluster, times how rare the column is."""
    of_cluster, of_column = _totals(sums)
    mean = of_cluster.sum() / len(of_cluster)
    shares = sums.data / np.repeat(of_cluster, np.diff(sums.indptr))
    rare = np.log1p(mean / of_column[sums.indices])
    return sp.csr_array((shares * rare, sums.indices, sums.indptr), shape=sums.shape)


def _log_odds(sums: sp.csr_array, prior: float) -> sp.csr_array:
    """How much more a column is used in a cluster than outside, over the standard error of that."""
    of_cluster, of_column = _totals(sums)
    total = of_cluster.sum()
    weight = prior * total / len(of_cluster)
    inside, everywhere = sums.data, of_column[sums.indices]
    own = np.repeat(of_cluster, np.diff(sums.indptr))
    expected = weight * everywhere / total
    outside = np.maximum(everywhere - inside, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log((inside + expected) / (own + weight - inside - expected))
        odds -= np.log((outside + expected) / (total - own + weight - outside - expected))
        scores = odds / np.sqrt(1 / (inside + expected) + 1 / (outside + expected))
    # A column that is all that there is tells nothing.
    scores = np.where(np.isfinite(scores), scores, 0.0)
    return sp.csr_array((scores, sums.indices, sums.indptr), shape=sums.shape)


def _totals(sums: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Sums by cluster and by column."""
    return np.asarray(sums.sum(axis=1)).ravel(), np.asarray(sums.sum(axis=0)).ravel()
