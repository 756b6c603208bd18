"""The runs of a fit, from several starts or from where they were, and the best of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans import refine, sizes
from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.kmeans.keeping import LOGGER, Keeper, RunKeeper
from sparsecluster.kmeans.loop import Loop, Task, iterate
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import told
from sparsecluster.kmeans.state import RunState
from sparsecluster.run import restarts
from sparsecluster.run.history import IterationRecord, Reporter

# The parameters that the result of a fit depends on.
DECIDING = (
    "n_clusters",
    "metric",
    "zero_rows",
    "init",
    "init_options",
    "n_init",
    "size_min",
    "size_max",
    "refine",
    "max_iter",
    "tol",
    "random_state",
)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """How many runs a fit has, how they start, what follows them, and who is told."""

    n_clusters: int
    n_init: int
    init_options: dict[str, Any] | None
    refine: str | None
    show: Callable[[str], None]  #: a line of progress
    report: Reporter
    keeper: Keeper | None  #: of a checkpoint

    def best(self, task: Task, init: Any, seeds: np.ndarray) -> RunState:
        """The run of the lowest cost, of those from several starts."""
        n_threads = task.setting.n_threads
        # A function of the user's may not stand being called from several threads.
        # Workers do one run after the other.
        side_by_side = isinstance(init, str) and task.remote is None
        together = min(self.n_init, n_threads) if side_by_side else 1

        def run_from(run: int, n_threads: int, report: Reporter) -> RunState:
            setting = replace(
                task.setting,
                n_threads=n_threads,
                random_state=np.random.RandomState(seeds[run]),
                progress=told(report, run),
            )
            own = self.keeper.run(run) if self.keeper else None
            own_task = replace(task, setting=setting, run=run, tell=report)
            return self._run(own_task, init, own, report)

        found = restarts.run_all(
            run_from, self.n_init, together, n_threads=n_threads, on_iteration=self.report
        )
        return min(found, key=lambda one: one.inertia)

    def continued(self, task: Task, state: RunState, keeper: RunKeeper | None) -> RunState:
        """The end of a single run that is at this state."""

        def run_from(run: int, n_threads: int, report: Reporter) -> RunState:
            return self._run_on(replace(task, tell=report), state, keeper, report)

        n_threads = task.setting.n_threads
        found = restarts.run_all(run_from, 1, 1, n_threads=n_threads, on_iteration=self.report)
        return found[0]

    def _run(self, task: Task, init: Any, keeper: RunKeeper | None, report: Reporter) -> RunState:
        """One run, from its start or from where it was."""
        state = keeper.resume(task.rows, task.occurring) if keeper else None
        if state is None:
            started = time.perf_counter()
            starting = starting_centers if task.remote is None else task.remote.starting_centers
            centers = starting(init, task.rows, self.n_clusters, task.setting, self.init_options)
            if task.bounds is not None:
                centers = sizes.with_all_clusters(centers, self.n_clusters)
            elif task.warns:
                warn_if_fewer(centers.n_clusters, self.n_clusters)
            if task.rows.streamed:
                _core.give_back()  # what the start needed, where memory is scarce
            state = RunState.at(centers, time.perf_counter() - started)
            self.show(f"Initialization complete, run {task.run}")
            if keeper:
                keeper.reached(state, save=True)
        elif not state.finished:
            which = f"run {task.run + 1} " if self.n_init > 1 else ""
            LOGGER.info("Continuing %sat iteration %d.", which, len(state.history) + 1)
            self.show(f"Continuing {which}at iteration {len(state.history) + 1}.")
        return self._run_on(task, state, keeper, report)

    def _run_on(
        self, task: Task, state: RunState, keeper: RunKeeper | None, report: Reporter
    ) -> RunState:
        """From a state to the end of the run."""
        if state.finished or state.refining:
            found = task.measured(state)
        else:

            def observe(record: IterationRecord, loop: Loop) -> Any:
                if keeper and not (loop.settled or loop.near):
                    keeper.reached(loop.state())
                stop = report(record)
                if loop.settled or loop.near:
                    why = f"center shift {record.shift:.3g} within tolerance {task.tolerance:.3g}"
                    why = "strict convergence" if loop.settled else why
                    self.show(f"Converged at iteration {record.iteration}, run {task.run}: {why}.")
                return stop

            found = iterate(task, state, observe)
        if state.finished:
            return found
        if self.refine is not None:
            found = refine.first_variation(task, found, on_iteration=report, keeper=keeper)
        if keeper and not found.stopped:
            keeper.reached(replace(found, refining=False, finished=True), save=True)
        return found


def warn_unless_converged(found: RunState, max_iter: int, *, stepping: bool) -> None:
    """Say so where `max_iter` was not enough; a single step that was asked for is."""
    if found.converged or found.stopped or stepping:
        return
    warnings.warn(
        f"K-means did not converge in max_iter={max_iter} iterations: the centers still move. "
        f"Raise max_iter or tol.",
        ConvergenceWarning,
        stacklevel=3,
    )
