"""What a fit with a checkpoint keeps of its runs: saved now and then, and when it is cut short."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.checkpoint import Checkpoint, StateFile, open_checkpoint

LOGGER = logging.getLogger("sparsecluster")


class RunKeeper:
    """Where a run is, in memory after each iteration and in a file after some of them."""

    def __init__(self, file: StateFile) -> None:
        self.file = file
        self.state: RunState | None = None  #: None while the run is seeded
        self._saved = False
        self._columns: Columns | None = None  # of the run, where it does without some

    def resume(self, rows: Rows, columns: Columns | None = None) -> RunState | None:
        """Where the run was when its file was written; None where there is no such file. `columns`:
        those that occur, where the run knows no others; the file has all of them."""
        self._columns = columns
        self.state, self._saved = RunState.load(self.file, rows, columns), True
        return self.state

    def reached(self, state: RunState, *, save: bool = False) -> None:
        """The run is here; that is written if it is time, or at once."""
        self._saved = False  # first, because Ctrl-C may come between the two
        self.state = state
        if save or self.file.due:
            self.save()

    def save(self) -> None:
        """Write where the run is, unless the file has it."""
        if self.state is not None and not self._saved:
            self.state.save(self.file, self._columns)
            self._saved = True


class Keeper:
    """The runs of a fit that has a checkpoint."""

    def __init__(self, folder: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
        self._folder, self._checkpoint = Path(folder), checkpoint
        self._runs: dict[int, RunKeeper] = {}
        self._n_runs = 1

    def run(self, number: int) -> RunKeeper:
        """What belongs to one run."""
        return self._runs.setdefault(number, RunKeeper(self._checkpoint.run(number)))

    def seeds(self, drawn: np.ndarray) -> np.ndarray:
        """The seeds that the fit began with, or those that were drawn now."""
        self._n_runs = len(drawn)
        return self._checkpoint.seeds(drawn)

    def cut_short(self, reason: BaseException) -> None:
        """Write where all runs are, and say so, because the fit ends."""
        if all(run.state is None for run in self._runs.values()):
            if not isinstance(reason, Exception):
                LOGGER.warning("Interrupted while seeding: there is nothing to save yet.")
            return
        try:
            for run in self._runs.values():
                run.save()
        except Exception as error:
            # What ended the fit counts more.
            LOGGER.warning("Could not save the fit in %s: %s", self._folder, error)
            return
        except BaseException:
            LOGGER.warning(
                "Interrupted while saving: %s keeps what was saved before.", self._folder
            )
            raise
        LOGGER.warning("%s", self._summary())

    def _summary(self) -> str:
        states = {number: run.state for number, run in sorted(self._runs.items())}
        if self._n_runs == 1:
            what = _place(states[0])
        else:  # of which some may not have begun
            what = ", ".join(f"run {n + 1} {_place(state)}" for n, state in states.items())
        return f"Saved in {self._folder}: {what}. The same fit continues from there."


def _place(state: RunState | None) -> str:
    if state is None:
        return "(seeding)"
    return "(finished)" if state.finished else f"iteration {len(state.history)}"


@contextmanager
def keeping(folder: Any, same_fit: dict[str, Any], every: Any) -> Iterator[Keeper | None]:
    """What keeps the runs of a fit in a folder; None without one. What ends the fit saves them."""
    with open_checkpoint(folder, same_fit, every) as saved:
        keeper = Keeper(folder, saved) if saved else None
        try:
            yield keeper
        except BaseException as error:
            if keeper:
                keeper.cut_short(error)
            raise
