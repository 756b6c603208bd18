"""How many components keep the cost of every partition, with a given probability."""

from __future__ import annotations

import math


def embedding_error(eps: float) -> float:
    """The relative error of the costs of all partitions, e', that leaves the cost of the best
    embedded partition within 1 + eps of the optimum: eps = 2 e' / (1 - e') (Lemma 1)."""
    return eps / (2.0 + eps)


def components_for(n_clusters: int, eps: float, delta: float) -> int:
    """Components of a sparse embedding by Theorem 1 of Liu, Shen and Tsang (2017), its constant
    taken as one: max((K + log2(1 / delta)) / e'^2, 6 / (e'^2 delta))."""
    error2 = embedding_error(eps) ** 2
    by_clusters = (n_clusters + math.log2(1.0 / delta)) / error2
    by_norms = 6.0 / (error2 * delta)
    # A hair less, so that rounding does not add a component.
    return max(1, math.ceil(max(by_clusters, by_norms) * (1.0 - 1e-12)))
