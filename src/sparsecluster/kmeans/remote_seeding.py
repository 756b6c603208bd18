"""Starting centers of rows that workers have: what is drawn is the same as where rows are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans.merged import merge_limbs
from sparsecluster.kmeans.packed import Arrays, packed
from sparsecluster.kmeans.seeding.parallel import states_at
from sparsecluster.kmeans.seeding.registry import METHODS
from sparsecluster.kmeans.seeding.starting import (
    among,
    check_method,
    seed_among,
    seed_by_name,
)
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.grouped import group_sums
from sparsecluster.rows.rows import Rows, as_rows

if TYPE_CHECKING:
    from sparsecluster.kmeans.remote import RemoteRows


def seed_remotely(
    method: str,
    remote: RemoteRows,
    n_clusters: int,
    setting: SeedSetting,
    options: dict[str, Any] | None,
) -> tuple[sp.csr_array, np.ndarray | None]:
    """Centers in float64, and the rows they are, or None: by the workers where the method can be
    distributed, by this process elsewhere, which reads all rows then."""
    check_method(method, setting.metric.name, options)
    if not METHODS[method].distributed:
        return seed_by_name(method, remote.rows_here(), n_clusters, setting, options)
    useless = np.concatenate(remote.session.ask("useless"))
    eligible = None
    if len(useless):
        eligible = np.setdiff1d(np.arange(remote.n_rows), useless, assume_unique=True)
        setting = among(eligible, setting)
    drawn = RowsThere(remote, eligible, setting)
    try:
        centers, found = seed_among(method, drawn, n_clusters, setting, options)
    finally:
        drawn.forget()
    return centers, (found if eligible is None or found is None else eligible[found])


class RowsThere:
    """The rows of all parts that can be centers, by their numbers among these."""

    def __init__(
        self, remote: RemoteRows, eligible: np.ndarray | None, setting: SeedSetting
    ) -> None:
        self._remote, self._eligible, self._session = remote, eligible, remote.session
        weights = setting.weights
        self._largest = 1.0 if weights is None else float(weights.max())
        cuts = np.asarray(remote.cuts)
        #: where parts begin, in numbers of rows that can be centers
        self._cuts = cuts if eligible is None else np.searchsorted(eligible, cuts)
        self.n_rows = int(self._cuts[-1])
        self._drawn: list[Arrays] = []
        self._session.restore_by(lambda part: {})  # no run before matters any more

    def picked(self, indices: np.ndarray) -> sp.csr_array:
        """The rows at these indices, in their own type."""
        indices = np.asarray(indices, dtype=np.int64)
        rows = indices if self._eligible is None else self._eligible[indices]
        return self._remote.picked(rows)

    def take(self, indices: np.ndarray) -> sp.csr_array:
        """The same in float64."""
        return sp.csr_array(self.picked(indices), dtype=np.float64)

    def select(self, indices: np.ndarray) -> Rows:
        """These rows, here."""
        return as_rows(self.picked(indices), n_threads=self._remote.n_threads)

    def whole(self) -> Rows:
        """All of them, here."""
        rows = self._remote.rows_here()
        return rows if self._eligible is None else rows.select(self._eligible)

    def approach(self, centers: sp.csr_array) -> float:
        """Draw these, too; the sum of the weighted squared distances to the nearest."""
        before, new = list(self._drawn), packed(centers)
        self._session.restore_by(lambda part: {"drawn": before})
        total = self._session.turn("approach", new, merge=merge_limbs)
        self._drawn = [*before, new]
        self._session.restore_by(lambda part: {"drawn": self._drawn})
        return _core.exact_value(total)

    def draw(self, random_state: np.random.RandomState, total: float, wanted: float) -> np.ndarray:
        """Rows at random, about so many, by their shares of the total."""
        states = states_at(random_state, np.diff(self._cuts).tolist())
        own = [{"state": state} for state in states]
        found = self._session.ask("draw", {"total": total, "wanted": wanted}, own=own)
        return np.concatenate(
            [begin + some for begin, some in zip(self._cuts, found, strict=False)]
        )

    def weights_near(self, centers: sp.csr_array) -> np.ndarray:
        """The weight of the rows that are nearest to each of the centers."""
        given = {"n_rows": self.n_rows, "largest": self._largest, **packed(centers)}
        return group_sums([self._session.ask("weights_near", given, merge=merge_limbs)])

    def forget(self) -> None:
        """Nothing is needed any more to restore a part: what follows begins anew."""
        self._session.restore_by(lambda part: {})
