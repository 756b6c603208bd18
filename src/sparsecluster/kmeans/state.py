"""A run at rest: what it can resume from, and what it ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.checkpoint import StateFile

FLAGS = ("refining", "finished", "converged", "stopped")


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run is: at its start, in its loop, among single moves, or at its end.

    Centers are a function of the labels, and labels of the centers, so a run that resumes from
    either ends where it would have ended.
    """

    centers: sp.csr_array
    history: list[IterationRecord]
    labels: np.ndarray | None = None  #: None at the start
    refining: bool = False
    finished: bool = False
    converged: bool = False
    stopped: bool = False
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

    def core_centers(self) -> _core.Centers:
        """The centers as the core wants them, a copy."""
        return centers_.to_core(self.centers)

    def save(self, file: StateFile) -> None:
        """Write it in the place of the state before."""
        records = [asdict(record) for record in self.history]
        file.save({**vars(self), "history": records})

    @classmethod
    def load(cls, file: StateFile, rows: Rows) -> RunState | None:
        """The state that was written last; None where none was."""

        def restored(packed: dict[str, Any]) -> RunState:
            state = cls(
                centers=packed["centers"],
                history=[IterationRecord(**record) for record in packed["history"]],
                labels=None if packed["labels"] is None else np.array(packed["labels"]),
                **{name: bool(packed[name]) for name in FLAGS},
                seeding_seconds=float(packed.get("seeding_seconds", 0.0)),
            )
            state._check(rows)
            return state

        return file.load(restored)

    def _check(self, rows: Rows) -> None:
        if not sp.issparse(self.centers) or self.centers.shape[1] != rows.n_features:
            raise ValueError("the centers are of a wrong shape")
        if not np.isfinite(self.centers.data).all():
            raise ValueError("the centers are not finite")
        if self.labels is None:
            return
        if self.labels.shape != (rows.n_rows,) or self.labels.dtype != np.int32:
            raise ValueError("the labels are of a wrong shape")
        if self.labels.min() < 0 or self.labels.max() >= self.centers.shape[0]:
            raise ValueError("a label is out of range")


@dataclass
class Clustering:
    """What a run ends with: every label is that of the nearest center."""

    centers: _core.Centers
    labels: np.ndarray
    inertia: float
    history: list[IterationRecord]
    converged: bool
    stopped: bool = False  #: by the callback
    seeding_seconds: float = 0.0

    @property
    def n_iter(self) -> int:
        return len(self.history)

    @classmethod
    def reached(cls, state: RunState, rows: Rows, setting: Setting) -> Clustering:
        """The clustering of a run that had one."""
        assert state.labels is not None
        centers = state.core_centers()
        inertia = _core.own_cost(
            rows.core, centers, state.labels, setting.weights, setting.n_threads
        )
        return cls(
            centers,
            state.labels,
            inertia,
            list(state.history),
            state.converged,
            state.stopped,
            state.seeding_seconds,
        )

    def state(self) -> RunState:
        """That of a run that has ended."""
        return RunState(
            centers=centers_.from_core(self.centers),
            labels=self.labels,
            history=self.history,
            finished=True,
            converged=self.converged,
            stopped=self.stopped,
            seeding_seconds=self.seeding_seconds,
        )

    def refining(self) -> RunState:
        """That of a run that continues with single moves."""
        return replace(self.state(), refining=True, finished=False)
