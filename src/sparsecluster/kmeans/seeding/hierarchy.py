"""Means of the clusters of a hierarchy: split from above, or merged from below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Task, iterate
from sparsecluster.kmeans.seeding.shared import (
    SampledRows,
    draw_by_distance,
    means,
    n_candidates,
    random_rows,
)
from sparsecluster.kmeans.setting import SeedSetting, unheard
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.rows import Rows


def bisecting(rows: Rows, n_clusters: int, setting: SeedSetting) -> sp.csr_array:
    """Means of clusters that come from splitting the costliest cluster in two, again and again."""
    parts = [np.arange(rows.n_rows)]
    costs = [float(_core.column_stats(rows.core, setting.weights).scatter)]
    while len(parts) < n_clusters and max(costs) > 0:
        worst = int(np.argmax(costs))
        members = parts[worst]
        few = rows.select(members)
        weights = None if setting.weights is None else setting.weights[members]
        inner = replace(setting, weights=weights, progress=unheard)
        start = draw_by_distance(few, 2, inner, n_candidates(2))
        if len(start) < 2:
            costs[worst] = 0.0
            continue
        columns = _core.column_stats(few.core, weights)
        task = Task(
            rows=few,
            setting=inner,
            columns=columns,
            tolerance=1e-4 * columns.mean_variance,
            max_iter=50,
        )
        at = RunState(centers=few.take(start), history=[])
        found = iterate(task, at, lambda record, loop: False)
        halves = [members[found.labels == side] for side in (0, 1)]
        if not all(map(len, halves)):
            costs[worst] = 0.0
            continue
        centers = centers_.to_core(found.centers)
        distance2 = _core.own_distances(few.core, centers, found.labels, setting.n_threads)
        if weights is not None:
            distance2 = distance2 * weights
        parts[worst : worst + 1] = halves
        setting.progress(len(parts) / n_clusters)
        costs[worst : worst + 1] = [
            float(distance2[found.labels == side].sum()) if len(halves[side]) > 1 else 0.0
            for side in (0, 1)
        ]
    return means(rows, parts, setting)


def hierarchical(
    rows: SampledRows, n_clusters: int, setting: SeedSetting, *, sample_size: int = 2000
) -> sp.csr_array:
    """Means of the clusters that Ward's method finds in a sample."""
    from scipy.cluster.hierarchy import fcluster, linkage

    size = min(rows.n_rows, max(int(sample_size), 2 * n_clusters))
    if 16 * size * size > setting.memory_limit:
        raise ValueError(
            f"init='hierarchical' needs the distances between {size} rows, "
            f"{16 * size * size / 1e9:.3g} GB, more than the memory limit of "
            f"{setting.memory_limit / 1e9:.3g} GB. Lower sample_size, or choose another init."
        )
    drawn = np.sort(random_rows(rows, size, setting))
    if len(drawn) <= n_clusters:
        return rows.take(drawn)
    few = rows.select(drawn)
    sample = few.take(np.arange(len(drawn)))
    norm2 = np.asarray(sample.power(2).sum(axis=1)).ravel()
    distance2 = norm2[:, None] + norm2 - 2 * (sample @ sample.T).toarray()
    condensed = np.sqrt(np.maximum(distance2[np.triu_indices(len(drawn), 1)], 0.0))
    labels = fcluster(linkage(condensed, "ward"), n_clusters, "maxclust") - 1
    parts = [np.flatnonzero(labels == cluster) for cluster in range(labels.max() + 1)]
    weights = None if setting.weights is None else setting.weights[drawn]
    return means(few, parts, replace(setting, weights=weights))
