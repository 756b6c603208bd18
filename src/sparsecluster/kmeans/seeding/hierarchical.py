"""Ward's method on a sample."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.kmeans.seeding.random_rows import random_rows
from sparsecluster.kmeans.seeding.shared import means
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.rows import Rows


def hierarchical(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, sample_size: int = 2000
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
    sample = rows.take(drawn)
    norm2 = np.asarray(sample.power(2).sum(axis=1)).ravel()
    distance2 = norm2[:, None] + norm2 - 2 * (sample @ sample.T).toarray()
    condensed = np.sqrt(np.maximum(distance2[np.triu_indices(len(drawn), 1)], 0.0))
    labels = fcluster(linkage(condensed, "ward"), n_clusters, "maxclust") - 1
    parts = [drawn[labels == cluster] for cluster in range(labels.max() + 1)]
    warn_if_fewer(len(parts), n_clusters)
    return means(rows, parts, setting)
