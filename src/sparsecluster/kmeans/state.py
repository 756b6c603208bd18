"""A run at rest: what it resumes from, and what it ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.checkpoint import StateFile

FLAGS = ("refining", "finished", "converged", "stopped")


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run is: at its start, in its loop, among single moves, or at its end.

    Centers are a function of the labels, and labels of the centers, so a run that resumes from
    either ends where it would have ended. Within size bounds several assignments may be equally
    good: the basis says which one the run would have found.
    """

    centers: sp.csr_array
    history: list[IterationRecord]
    labels: Any = None  #: an array; None at the start
    basis: Any = None  #: of the assignment, an array; None where sizes have no bounds
    inertia: float = np.inf  #: known at the end
    refining: bool = False
    finished: bool = False
    converged: bool = False
    stopped: bool = False  #: by the callback
    seeding_seconds: float = 0.0

    @classmethod
    def at(
        cls,
        centers: _core.Centers,
        seeding_seconds: float = 0.0,
        history: Sequence[IterationRecord] = (),
    ) -> RunState:
        """At these centers, without labels."""
        found = centers_.from_core(centers)
        return cls(centers=found, history=list(history), seeding_seconds=seeding_seconds)

    def measured(self, rows: Rows, setting: Setting) -> RunState:
        """The same with its inertia."""
        centers, weights = centers_.to_core(self.centers), setting.weights
        inertia = _core.own_cost(rows.core, centers, self.labels, weights, setting.n_threads)
        return replace(self, inertia=inertia)

    def save(self, file: StateFile, columns: Columns | None = None) -> None:
        """Write it in the place of the state before, with centers in all columns."""
        kept = {**vars(self), "history": [asdict(record) for record in self.history]}
        if columns is not None:
            kept["centers"] = columns.outside(self.centers)
        del kept["inertia"]
        file.save(kept)

    @classmethod
    def load(cls, file: StateFile, rows: Rows, columns: Columns | None = None) -> RunState | None:
        """The state that was written last, with centers in the columns of the rows; None where
        none was."""

        def restored(packed: dict[str, Any]) -> RunState:
            state = cls(
                centers=packed["centers"],
                history=[IterationRecord(**record) for record in packed["history"]],
                labels=None if packed["labels"] is None else np.array(packed["labels"]),
                basis=packed.get("basis"),
                **{name: bool(packed[name]) for name in FLAGS},
                seeding_seconds=float(packed.get("seeding_seconds", 0.0)),
            )
            if columns is None:
                state._check(rows.n_rows, rows.n_features)
                return state
            state._check(rows.n_rows, columns.n_columns)
            return replace(state, centers=columns.inside(state.centers))

        return file.load(restored)

    def _check(self, n_rows: int, n_columns: int) -> None:
        if not sp.issparse(self.centers) or self.centers.shape[1] != n_columns:
            raise ValueError("the centers are of a wrong shape")
        if not np.isfinite(self.centers.data).all():
            raise ValueError("the centers are not finite")
        if self.basis is not None:
            shape = (2 * self.centers.shape[0],)
            if self.basis.shape != shape or self.basis.dtype != np.int64:
                raise ValueError("the basis is not two integers per center")
        if self.labels is None:
            return
        if self.labels.shape != (n_rows,) or self.labels.dtype != np.int32:
            raise ValueError("the labels are of a wrong shape")
        if self.labels.min() < 0 or self.labels.max() >= self.centers.shape[0]:
            raise ValueError("a label is out of range")
