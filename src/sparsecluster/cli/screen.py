"""What a command shows: progress and warnings on standard error, its result on standard output."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sparsecluster.cli.words import in_options
from sparsecluster.rows.sharing import start_thread

if TYPE_CHECKING:
    from sparsecluster.cli.options import Running


class Output(Console):
    """Standard output. Rich would end the process with status 1 where nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line."""
        raise BrokenPipeError


class LogLines(logging.Handler):
    """Passes on what is logged, line by line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


class Screen:
    """The terminal, or what takes its place, for one command."""

    def __init__(self, running: Running, *, summary_to_stderr: bool = False) -> None:
        self.errors = Console(stderr=True, soft_wrap=True)
        self._out = self.errors if summary_to_stderr else Output()
        self._json_file = sys.stderr if summary_to_stderr else sys.stdout
        self._running = running

    @property
    def shows_progress(self) -> bool:
        """Whether someone watches."""
        return self.errors.is_terminal and not (self._running.quiet or self._running.json)

    @contextmanager
    def progress(self, what: str, path: Path | None = None) -> Iterator[Callable[..., None]]:
        """A bar for a piece of work; call it with the share done and, if need be, a remark.

        With the path of the file that is worked on the remark is how fast.
        """
        if not self.shows_progress:
            yield lambda share, remark="": None
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[remark]}", style="dim"),
        )
        size = path.stat().st_size if path is not None and path.is_file() else 0
        started = time.monotonic()
        # Where there is no thread to be had the bar moves only with the work.
        probe = start_thread(lambda: None)
        if probe is not None:
            probe.join()
        moving = probe is not None
        with Progress(*columns, console=self.errors, transient=True, auto_refresh=moving) as bars:
            task = bars.add_task(what, total=1.0, remark="")

            def show(share: float, remark: str = "") -> None:
                if size:
                    seconds = max(time.monotonic() - started, 1e-9)
                    remark = f"{share * size / seconds / 1e6:,.0f} MB/s"
                bars.update(task, completed=share, remark=remark, refresh=not moving)

            yield show

    @contextmanager
    def warnings_in_words(self) -> Iterator[None]:
        """Show warnings of the library, and what it logs, as lines, not as Python does."""
        logger, lines = logging.getLogger("sparsecluster"), LogLines(self._log)
        before = logger.level
        logger.addHandler(lines)
        logger.setLevel(logging.INFO)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = self._warn
                yield
        finally:
            logger.removeHandler(lines)
            logger.setLevel(before)

    def _log(self, line: str) -> None:
        if not self._running.quiet:
            self.errors.print(line, markup=False, highlight=False)

    def _warn(self, message: Any, *_: Any, **__: Any) -> None:
        if not self._running.quiet:
            self.errors.print(f"warning: {in_options(str(message))}", markup=False, highlight=False)

    def result(self, summary: dict[str, Any], *lines: Any) -> None:
        """The end of a command: for machines the summary, for people the lines."""
        if self._running.json:
            self._json_file.write(json.dumps(summary) + "\n")
        elif not self._running.quiet:
            for line in lines:
                one_line = isinstance(line, str)
                self._out.print(line, highlight=False, markup=False, soft_wrap=one_line)


class Iterations:
    """Progress of k-means, as a callback: rows that still move tell how far it is."""

    def __init__(self, show: Callable[..., None], n_rows: int) -> None:
        self._show = show
        self._all = math.log1p(n_rows)
        self._share = 0.0

    def __call__(self, record: Any) -> None:
        rest = math.log1p(record.moved) / self._all if self._all else 0.0
        self._share = max(self._share, 1.0 - rest)
        self._show(
            self._share,
            f"run {record.run} iteration {record.iteration}: {record.moved:,} rows moved, cost "
            f"{record.cost:.6g}, {record.rows / max(record.seconds, 1e-9):,.0f} rows/s",
        )
