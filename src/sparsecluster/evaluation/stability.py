"""Whether a clustering comes back when it is made of other rows of the same data."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from sparsecluster.evaluation.agreement import adjusted_rand
from sparsecluster.evaluation.labelling import Progress
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.parameters import Positive, check_number
from sparsecluster.rows.resources import effective_n_threads


def stability(
    estimator: Any,
    X: Any,
    *,
    n_resamples: int = 5,
    fraction: float = 0.8,
    samples: bool = False,
    sample_weight: Any = None,
    random_state: Any = None,
    progress: Progress | None = None,
) -> Any:
    """How well clusterings of two samples of the rows agree: the mean adjusted Rand index.

    Two samples are drawn without replacement and clustered, each by a clone of the estimator, and
    their labels are compared on the rows that both have (Ben-Hur, Elisseeff and Guyon 2002). 1
    means that the same clusters come back, 0 that they agree as chance would have it.

    Parameters
    ----------
    estimator : estimator
        KMeans, or another with `fit` and `labels_`. It is not fitted itself, and each clone gets a
        `random_state` of its own, so that chance in the start counts too.
    X : matrix, frame, Rows, store or path
        The rows.
    n_resamples : int, default=5
        Pairs of samples.
    fraction : float, default=0.8
        The share of the rows in a sample, above 0 and below 1.
    samples : bool, default=False
        Whether to return the index of each pair of samples in place of their mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, passed to `fit`; rows are drawn whatever they weigh.
    random_state : int, RandomState or None, default=None
        Which rows are drawn.
    progress : callable, default=None
        Called with the share that is done after each fit.

    Returns
    -------
    float, or ndarray of shape (n_resamples,)

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import KMeans, stability
    >>> X = np.repeat([[0.0], [1.0], [8.0], [9.0]], 25, axis=0)
    >>> stability(KMeans(4), X, random_state=0)
    1.0
    """
    check_number("n_resamples", n_resamples, Integral, 1)
    Positive().check("fraction", fraction)
    if fraction >= 1:
        raise ValueError(f"fraction must be below 1, got {fraction!r}.")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise ValueError(f"estimator must have fit and get_params, got {estimator!r}.")
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable or None, got {progress!r}.")
    chance = check_random_state(random_state)
    rows = enter(X, n_threads=effective_n_threads(None))
    weights = check_weights(sample_weight, rows)
    size = int(fraction * rows.n_rows)
    if size * fraction < 2:
        raise ValueError(
            f"Two samples of {fraction:g} of {rows.n_rows} rows share too few to compare. Raise "
            f"fraction, or pass more rows."
        )
    n_clusters = estimator.get_params().get("n_clusters")
    if isinstance(n_clusters, Integral) and size < int(n_clusters):
        raise ValueError(
            f"A sample of {fraction:g} of {rows.n_rows} rows has {size} rows, fewer than "
            f"n_clusters={n_clusters}. Raise fraction, or pass more rows."
        )
    found = np.empty(n_resamples)
    for pair in range(n_resamples):
        drawn = [np.sort(chance.permutation(rows.n_rows)[:size]) for _ in range(2)]
        labels = []
        for number, sample in enumerate(drawn):
            labels.append(_labels(estimator, rows.picked(sample), sample, weights, chance))
            if progress is not None:
                progress((2 * pair + number + 1) / (2 * n_resamples))
        _, first, second = np.intersect1d(
            drawn[0], drawn[1], assume_unique=True, return_indices=True
        )
        if len(first) < 2:
            raise ValueError("Two samples share fewer than two rows: raise fraction.")
        shared = None if weights is None else weights[drawn[0][first]]
        found[pair] = adjusted_rand(labels[0][first], labels[1][second], sample_weight=shared)
    return found if samples else float(found.mean())


def _labels(
    estimator: Any,
    matrix: Any,
    sample: np.ndarray,
    weights: np.ndarray | None,
    chance: np.random.RandomState,
) -> np.ndarray:
    """The labels of a sample by a clone of the estimator."""
    fitted = clone(estimator)
    if "random_state" in fitted.get_params():
        fitted.set_params(random_state=int(chance.randint(np.iinfo(np.int32).max)))
    if weights is None:
        fitted.fit(matrix)
    else:
        fitted.fit(matrix, sample_weight=weights[sample])
    return np.asarray(fitted.labels_)
