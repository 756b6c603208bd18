"""Distances and similarities of all pairs of rows, from sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.distances.metrics import checked_options
from sparsecluster.distances.pairs import pairs_of
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads


def pairwise(
    X: Any,
    Y: Any = None,
    metric: str = "jaccard",
    *,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    **options: Any,
) -> np.ndarray:
    """Distances or similarities of all pairs of rows; sparse rows stay sparse.

    Parameters
    ----------
    X, Y : matrix, data frame, Rows or path; for ``metric="edit"`` sequences of str
        The rows; by default Y is X.
    metric : str, default="jaccard"
        A distance:

        - ``"euclidean"``, ``"sqeuclidean"`` (its square), ``"manhattan"``
        - ``"minkowski"``: the p-th root of the sum of ``|x - y|**p``; option `p` (default 2)
        - ``"cosine"``: 1 - cos; a row of zeros is at 1 from all others
        - ``"jaccard"``: of the sets of columns that are not zero; ``"weighted_jaccard"``: 1 - sum
          of minima / sum of maxima, for values that are not negative
        - ``"hamming"``: the share of columns that differ, numbers or categories; with
          ``count=True`` their number
        - ``"edit"``: of strings, the cheapest way from one to the other; options `insert`,
          `delete` and `substitute` are the costs of a character (default 1)

        or a similarity:

        - ``"inner_product"``
        - ``"rbf"``: exp(-gamma d²); option `gamma` (default 1 / columns)
        - ``"squared_exponential"``: variance exp(-d² / (2 length_scale²)); options `length_scale`
          and `variance` (default 1)
        - ``"ard"``: the same with one length per column; options `length_scales`, `variance`
    n_threads : int or None, default=None
        Threads; by default as many as there are CPUs.
    memory_limit : int, str or None, default=None
        Most bytes that the result may take, also like ``"2GB"``; by default half of what is free.
    **options
        Options of the metric. Names that it does not have are refused.

    Returns
    -------
    ndarray of float64, rows of X x rows of Y

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from sparsecluster import pairwise
    >>> X = sp.csr_array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 2, 3]])
    >>> pairwise(X)
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 1. ],
           [1. , 1. , 0. ]])
    >>> pairwise(X, metric="minkowski", p=1)[0]
    array([0., 1., 7.])
    """
    checked = checked_options(metric, options)
    limit, threads = effective_memory_limit(memory_limit), effective_n_threads(n_threads)
    pairs = pairs_of(X, Y, metric, checked, n_threads=threads)
    n_rows, n_others = pairs.shape
    if (size := 8 * n_rows * n_others) > limit:
        raise ValueError(
            f"The result of {n_rows:,} x {n_others:,} pairs takes {size / 1e9:.3g} GB, more than "
            f"the memory limit of {limit / 1e9:.3g} GB. Pass fewer rows at a time, or raise it."
        )
    out = np.empty(pairs.shape)
    for begin in range(0, n_rows, pairs.block_rows):
        end = min(begin + pairs.block_rows, n_rows)
        pairs.block(begin, end, out[begin:end])
    return out
