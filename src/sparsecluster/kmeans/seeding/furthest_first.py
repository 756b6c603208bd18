"""The mean, then the farthest rows."""

from __future__ import annotations

import scipy.sparse as sp

from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.kmeans.seeding.shared import farthest_rows, mean_row
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.rows import Rows


def furthest_first(rows: Rows, n_clusters: int, setting: SeedSetting) -> sp.csr_array:
    """The mean, then again and again the row farthest from all centers so far."""
    mean = setting.metric.centers(mean_row(rows, setting))
    found = farthest_rows(rows, n_clusters - 1, setting, start=mean)
    warn_if_fewer(len(found) + 1, n_clusters)
    return sp.csr_array(sp.vstack([mean, rows.take(found)], format="csr"))
