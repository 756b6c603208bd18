"""Statistics of the columns of rows that are in parts, as they travel: sums that no partition
changes."""

from __future__ import annotations

import zlib

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.merged import merge_limbs, merge_totals
from sparsecluster.kmeans.packed import Arrays
from sparsecluster.run.session import Session

NO_LIMBS = np.zeros(len(_core.exact_limbs(np.zeros(0))), dtype=np.int64)


def column_stats_there(session: Session, range: tuple, weighted: bool, n_columns: int) -> Arrays:
    """Statistics of the columns of all parts, as they travel."""
    columns: Arrays = {
        "range": range,
        "weighted": weighted,
        "n_columns": n_columns,
        "deviations": NO_LIMBS,
    }
    columns["totals"] = session.ask("column_totals", {"range": range}, merge=merge_totals)
    columns["deviations"] = session.ask("deviations", {"columns": columns}, merge=merge_limbs)
    return columns


def check_fixed_point(sums: _core.ClusterSums) -> None:
    """Refuse columns whose sums cannot be merged exactly."""
    if not sums.fixed_point:
        raise ValueError(
            "The values of a column, or the weights, differ by so many orders of magnitude that "
            "only sums in the order of the rows keep their digits. Scale the columns, leave out "
            "the smallest values, or do without executor."
        )


def stats_of(columns: Arrays) -> _core.ColumnStats:
    """Statistics of columns from what travels."""
    return _core.stats_of_totals(
        columns["totals"],
        columns["range"],
        columns["weighted"],
        columns["deviations"],
        columns["n_columns"],
    )


def totals_checksum(columns: Arrays) -> int:
    """What tells rows apart that are known by the sums of their columns alone."""
    checksum = 0
    for part in columns["totals"]:
        checksum = zlib.crc32(np.ascontiguousarray(part).tobytes(), checksum)
    return zlib.crc32(columns["deviations"].tobytes(), checksum)
