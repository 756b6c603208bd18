"""Rows that lie far apart: of all rows, or of some drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sparsecluster.kmeans.seeding.shared import SampledRows, means, nearest_of, random_rows
from sparsecluster.kmeans.setting import SeedSetting, unheard
from sparsecluster.rows.rows import Rows


def furthest_first(rows: Rows, n_clusters: int, setting: SeedSetting) -> sp.csr_array:
    """The mean, then again and again the row farthest from all centers so far."""
    mean = setting.metric.centers(_mean_row(rows, setting))
    found = _farthest_rows(rows, n_clusters - 1, setting, start=mean)
    return sp.csr_array(sp.vstack([mean, rows.take(found)], format="csr"))


def oversample(
    rows: SampledRows, n_clusters: int, setting: SeedSetting, *, oversampling: float = 4.0
) -> np.ndarray:
    """More rows than needed at random; of these, those that lie farthest apart are kept."""
    more = min(rows.n_rows, int(np.ceil(max(1.0, oversampling) * n_clusters)))
    drawn = np.sort(random_rows(rows, more, setting))
    few = rows.select(drawn)
    alike = replace(setting, weights=None)
    start = _mean_row(few, alike)
    first = _farthest_rows(few, 1, replace(alike, progress=unheard), start=start)
    if not len(first):
        return drawn[:1]
    others = _farthest_rows(few, n_clusters - 1, alike, start=few.take(first))
    return drawn[np.concatenate([first, others])]


def _farthest_rows(
    rows: Rows, count: int, setting: SeedSetting, *, start: sp.csr_array
) -> np.ndarray:
    """Row by row the one farthest from `start` and from all before; of equals the first."""
    distance2 = nearest_of(rows, start, setting)[1]
    if setting.weights is not None:
        distance2 = np.where(setting.weights > 0, distance2, -1.0)
    found: list[int] = []
    while len(found) < count:
        farthest = int(np.argmax(distance2))
        if not distance2[farthest] > 0:
            break
        found.append(farthest)
        setting.progress(len(found) / count)
        distance2 = np.minimum(
            distance2, nearest_of(rows, rows.take(np.array([farthest])), setting)[1]
        )
    return np.array(found, dtype=np.int64)


def _mean_row(rows: Rows, setting: SeedSetting) -> sp.csr_array:
    """The mean of all rows, as a CSR array of one row."""
    return means(rows, [np.arange(rows.n_rows)], setting)
