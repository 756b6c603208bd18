"""How many dimensions each way to shrink rows needs: Table 1 of Liu, Shen and Tsang (NIPS 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sparsecluster.embedding.rule import components_for
from sparsecluster.rows.parameters import check_name, check_number

ONE = "the paper gives the order; its constant is taken as 1, logarithms as base 2"


@dataclass(frozen=True)
class Dimensions:
    """A row of the table, for a given task.

    Attributes
    ----------
    method : str
        The name by which it was asked for.
    n_components : int
        Dimensions that are kept; with "sparsified", entries that are kept of each row.
    factor : float or None
        What the cost of the optimal clustering of the smaller rows may be, as a multiple of the
        optimum; None where nothing is proven.
    rule : str
        How `n_components` follows.
    constant : str
        What the rule leaves open, and what was taken.
    time : str
        Time of the reduction, as the paper has it, for n rows, d columns and k clusters.
    source : str
        Who proved it.
    """

    method: str
    n_components: int
    factor: float | None
    rule: str
    constant: str
    time: str
    source: str


@dataclass(frozen=True)
class _Task:
    n: int
    k: int
    eps: float
    delta: float
    d: int


@dataclass(frozen=True)
class _Rule:
    count: Callable[[_Task], float]
    factor: Callable[[float], float | None]
    rule: str
    time: str
    source: str
    constant: str = ONE


def _log2(value: float) -> float:
    return max(1.0, math.log2(value))


TABLE: dict[str, _Rule] = {
    "svd-k": _Rule(
        lambda task: task.k, lambda eps: 2.0, "k", "n d min(n, d)",
        "Drineas, Frieze, Kannan, Vempala and Vinay (1999)", "stated exactly",
    ),
    "random-projection": _Rule(
        lambda task: _log2(task.n) / task.eps**2, lambda eps: 1 + eps, "log(n) / eps^2",
        "n d log(n) / (eps^2 log(d))", "folklore, by the lemma of Johnson and Lindenstrauss",
    ),
    "svd-selection": _Rule(
        lambda task: task.k * _log2(task.k / task.eps) / task.eps**2, lambda eps: 2 + eps,
        "k log(k / eps) / eps^2", "n d min(n, d)", "Boutsidis, Mahoney and Drineas (2009)",
    ),
    "svd": _Rule(
        lambda task: task.k / task.eps**2, lambda eps: 1 + eps, "k / eps^2", "n d min(n, d)",
        "Feldman, Schmidt and Sohler (2013)",
    ),
    "random-signs": _Rule(
        lambda task: task.k / task.eps**2, lambda eps: 2 + eps, "k / eps^2",
        "n d k / (eps^2 log(d))", "Boutsidis, Zouzias, Mahoney and Drineas (2015)",
    ),
    "sparsified": _Rule(
        lambda task: task.d * _log2(task.n) / task.n, lambda eps: None, "d log(n) / n",
        "n d log(d) + d log(n)", "Pourkamali-Anaraki and Becker (2017)",
    ),
    "sparse-embedding": _Rule(
        lambda task: components_for(task.k, task.eps, task.delta), lambda eps: 1 + eps,
        "max((k + log(1/delta)) / e^2, 6 / (e^2 delta)) with eps = 2 e / (1 - e)", "nnz",
        "Liu, Shen and Tsang (2017)",
    ),
}  # fmt: skip


def dimensions(
    method: str,
    n: int,
    n_clusters: int,
    eps: float = 0.5,
    delta: float = 0.1,
    *,
    n_features: int | None = None,
) -> Dimensions:
    """How many dimensions a method needs for a k-means cost within a factor of the optimum.

    These are the rows of Table 1 of "Sparse Embedded k-Means Clustering" (NIPS 2017). All but one
    are given there up to a constant, which is taken as 1: they compare how methods grow, and are no
    promise. Only "sparse-embedding" depends on `delta`. Of "sparsified" the paper gives the share
    of the entries that are kept, log(n) / n.

    Parameters
    ----------
    method : str
        - "svd-k": the first k singular vectors; cost within 2
        - "random-projection": any projection that keeps all pairs of distances; within 1 + eps
        - "svd-selection": columns drawn by leverage scores; within 2 + eps
        - "svd": singular vectors; within 1 + eps
        - "random-signs": dense random signs; within 2 + eps
        - "sparsified": preconditioned data sparsification; no factor is proven
        - "sparse-embedding": :class:`SparseEmbedding`; within 1 + eps, but for a share of `delta`
    n : int
        Rows.
    n_clusters : int
        Clusters that are looked for.
    eps : float, default=0.5
        See above; above 0 and below 1.
    delta : float, default=0.1
        Probability of missing the factor; above 0 and below 1.
    n_features : int, optional
        Columns, which "sparsified" depends on.

    Returns
    -------
    Dimensions
        `n_components`, the `factor`, the `rule`, what was taken as its `constant`, its `source`.

    Examples
    --------
    >>> from sparsecluster import dimensions
    >>> for method in ("svd-k", "random-projection", "svd", "random-signs", "sparse-embedding"):
    ...     row = dimensions(method, 10_000, 20, 0.5, 0.1)
    ...     print(method, row.n_components, row.factor)
    svd-k 20 2.0
    random-projection 54 1.5
    svd 80 1.5
    random-signs 80 2.5
    sparse-embedding 1500 1.5
    """
    check_name("method", method, TABLE)
    for name, value in (("n", n), ("n_clusters", n_clusters)):
        check_number(name, value, Integral, 1)
    for name, share in (("eps", eps), ("delta", delta)):
        _check_share(name, share)
    if n_features is not None:
        check_number("n_features", n_features, Integral, 1)
    elif method == "sparsified":
        raise ValueError("method='sparsified' keeps a share of the columns: pass n_features.")
    row = TABLE[method]
    task = _Task(int(n), int(n_clusters), float(eps), float(delta), int(n_features or 0))
    # A hair less, so that rounding does not add a dimension.
    count = max(1, math.ceil(row.count(task) * (1 - 1e-12)))
    return Dimensions(
        method, count, row.factor(float(eps)), row.rule, row.constant, row.time, row.source
    )


def _check_share(name: str, value: Any) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 < value < 1:
        raise ValueError(f"{name} must be a number above 0 and below 1, got {value!r}.")
