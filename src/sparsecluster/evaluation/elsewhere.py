"""Silhouettes of rows that workers have: equal to the bit to those of rows that are here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.evaluation.geometry import (
    Geometry,
    KnownClusters,
    is_odd,
    mean_spreads,
    unit_means,
)
from sparsecluster.evaluation.labelling import (
    Labelling,
    Labels,
    Progress,
    check_labels,
    factor_for,
    labelled,
    largest_value,
)
from sparsecluster.evaluation.silhouette_values import mean_of_limbs, mean_terms, silhouettes
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.column_totals import check_fixed_point, column_stats_there, stats_of
from sparsecluster.kmeans.deltas import joined
from sparsecluster.kmeans.elsewhere import own_parts, part_rows, rows_elsewhere
from sparsecluster.kmeans.merged import merge_limbs, merge_ranges
from sparsecluster.kmeans.packed import Arrays, packed, unpacked
from sparsecluster.rows.grouped import group_sums, pieces_by_group
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.run.dask import check_executor, open_executor
from sparsecluster.run.session import Session

LEARNED = ("numbers", "weights", "n_clusters", "factor", "odd", "known")


class LabelledPart:
    """Some rows, and what was learned about them and their clusters; a `Part` of a session."""

    def __init__(self, spec: Arrays, n_threads: int) -> None:
        self._rows, self._n_threads = part_rows(spec, n_threads), n_threads
        self._limit, self._cosine = effective_memory_limit(spec["memory_limit"]), spec["cosine"]
        self._labelling: Labelling
        self._geometry: Geometry
        self.learn(**{name: spec[name] for name in LEARNED if name in spec})

    def restore(self, recipe: Arrays) -> None:
        """All that was learned is in the specification."""

    def learn(self, **facts: Any) -> None:
        """Turn: take labels and weights, then a factor, then whether norms are odd, then what is
        known about the clusters."""
        if "numbers" in facts:
            self._labelling = Labelling(
                rows=self._rows,
                numbers=np.array(facts["numbers"]),
                clusters=np.arange(facts["n_clusters"]),
                weights=np.array(facts["weights"]),
                n_threads=self._n_threads,
                memory_limit=self._limit,
            )
        if facts.get("factor") is not None:
            self._labelling = self._labelling.scaled(facts["factor"])
        if "odd" in facts:
            self._geometry = Geometry.of(self._labelling, cosine=self._cosine, odd=facts["odd"])
        if "known" in facts:
            known = {**facts["known"], "means": unpacked(facts["known"]["means"])}
            self._geometry = replace(self._geometry, known=KnownClusters(**known))

    def extent(self) -> tuple[float, float, float]:
        """The largest value of the rows, and the range of their squared norms."""
        rows = self._labelling.rows if hasattr(self, "_labelling") else self._rows
        norm2 = rows.core.norm2
        return largest_value(rows), float(norm2.min()), float(norm2.max())

    def row_range(self) -> tuple:
        """What column statistics need to know of all rows first."""
        return _core.row_range(self._geometry.points.core, self._geometry.row_weights)

    def column_totals(self, range: tuple) -> tuple:
        """Sums over the columns."""
        found = self._geometry
        core, weights = found.points.core, found.row_weights
        return _core.column_totals(core, weights, range, found.n_threads)

    def deviations(self, columns: Arrays) -> np.ndarray:
        """Squared deviations from the means of the columns, as an exact sum."""
        found = self._geometry
        core, weights = found.points.core, found.row_weights
        return _core.deviations(core, weights, stats_of(columns), found.n_threads)

    def sums(self, columns: Arrays) -> Any:
        """What the rows add to the sums of their clusters."""
        found, stats = self._geometry, stats_of(columns)
        sums = _core.RowSums(
            found.points.core, stats, found.row_weights, found.n_clusters, "euclidean"
        )
        return sums.delta(self._labelling.numbers, self._n_threads)

    def _values(self, name: str) -> np.ndarray:
        found, kept = self._geometry, self._labelling.inside
        weights = self._labelling.weights
        if name == "shares":
            return found.row_weights[kept]
        if name == "without":
            return (weights * (np.zeros(len(weights)) if found.zero is None else found.zero))[kept]
        return (weights * found.distances_to_means)[kept]

    def largest(self, name: str) -> float:
        """The largest of the values of rows that are to be added up."""
        return float(self._values(name).max(initial=0.0))

    def totals(self, name: str, n_rows: int, largest: float) -> np.ndarray:
        """Their sums by cluster, in pieces."""
        numbers = self._labelling.numbers[self._labelling.inside]
        n_clusters = self._labelling.n_clusters
        return pieces_by_group(numbers, self._values(name), n_clusters, n_rows, largest)

    def silhouettes(self) -> np.ndarray:
        """Those of the rows."""
        return silhouettes(self._geometry)[0]

    def silhouette_terms(self) -> np.ndarray:
        """What their mean is made of, as exact sums."""
        return mean_terms(silhouettes(self._geometry)[0], self._labelling)


def silhouettes_there(
    X: Any,
    labels: Any,
    executor: Any,
    *,
    cosine: bool,
    samples: bool,
    sample_weight: Any,
    n_threads: int | None,
    memory_limit: int | str | None,
    progress: Progress | None,
) -> Any:
    """The silhouettes of rows that workers have, or their mean."""
    check_executor(executor)
    threads, limit = effective_n_threads(n_threads), effective_memory_limit(memory_limit)
    numbered = Labels(*check_labels(labels))
    with open_executor(executor) as opened:
        source = rows_elsewhere(X, opened)
        cuts = source.cuts(opened.n_workers)
        specs = [
            {
                "begin": begin,
                "end": end,
                **source.spec(begin, end),
                "memory_limit": memory_limit,
                "cosine": cosine,
            }
            for begin, end in pairwise(cuts)
        ]
        with closing(opened.session(LabelledPart, specs)) as session:
            largest, _, max_norm2 = session.ask("extent", merge=_merge_extents)
            labelling = labelled(
                source.rows,
                numbered,
                sample_weight,
                least=2,
                distinct=True,
                max_norm2=max_norm2,
                n_threads=threads,
                memory_limit=limit,
                progress=progress,
            )
            _prepare(session, labelling, cuts, largest, cosine=cosine)
            labelling.tell(0.5)
            if samples:
                return np.concatenate(session.ask("silhouettes"))
            return mean_of_limbs(session.ask("silhouette_terms", merge=merge_limbs))


def _prepare(
    session: Session, labelling: Labelling, cuts: list[int], largest: float, *, cosine: bool
) -> None:
    """Have all parts learn where the clusters are."""
    by_row = {"numbers": labelling.numbers, "weights": labelling.weights}
    parts = {name: own_parts(cuts, array) for name, array in by_row.items()}
    own = [{name: parts[name][part] for name in parts} for part in range(session.n_parts)]
    n_clusters = labelling.n_clusters
    _tell(session, {"n_clusters": n_clusters, "factor": factor_for(largest)}, own=own)
    _, *norms = session.ask("extent", merge=_merge_extents)
    _tell(session, {"odd": is_odd(*norms)})
    weights, means = labelling.total(labelling.weights), _means(session, labelling, cosine=cosine)
    inside = labelling.numbers[labelling.inside]
    known = {
        "means": packed(means),
        "weights": weights,
        "n_rows": np.bincount(inside, minlength=n_clusters),
        "spreads": np.zeros(n_clusters),
    }
    _tell(session, {"known": known})
    scatters, without = (_total(session, labelling, name) for name in ("scatters", "without"))
    spreads = mean_spreads(scatters, without if without.any() else None, weights)
    _tell(session, {"known": {**known, "spreads": spreads}})


def _means(session: Session, labelling: Labelling, *, cosine: bool) -> sp.csr_array:
    """The mean of each cluster."""
    n_clusters, n_features = labelling.n_clusters, labelling.rows.n_features
    everything = session.ask("row_range", merge=merge_ranges)
    columns = column_stats_there(session, everything, True, n_features)
    sums = _core.ClusterSums(stats_of(columns), n_clusters, "euclidean")
    check_fixed_point(sums)
    centers = centers_.to_core(sp.csr_array((n_clusters, n_features)))
    delta = session.ask("sums", {"columns": columns}, merge=joined)
    sums.apply([delta], 0.0, centers, labelling.n_threads)
    means = centers_.from_core(centers)
    if not cosine:
        return means
    shares = _total(session, labelling, "shares")
    return unit_means(means, shares, labelling.total(labelling.weights))


def _total(session: Session, labelling: Labelling, name: str) -> np.ndarray:
    """Sums by cluster of values that the parts have."""
    largest = session.ask("largest", {"name": name}, merge=max)
    given = {
        "name": name,
        "n_rows": int(np.count_nonzero(labelling.inside)),
        "largest": largest,
    }
    return group_sums([session.ask("totals", given, merge=merge_limbs)])


def _tell(session: Session, shared: Arrays, *, own: Sequence[Arrays] | None = None) -> None:
    """Have all parts learn something, and those that are made in the place of a lost one."""
    session.specify(shared, own=own)
    session.turn("learn", shared, own=own)


def _merge_extents(found: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    largest, smallest_norm, largest_norm = zip(*found, strict=True)
    return max(largest), min(smallest_norm), max(largest_norm)
