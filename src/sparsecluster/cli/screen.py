"""What a command shows: progress and warnings on standard error, its result on standard output."""

from __future__ import annotations

import json
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from sparsecluster.cli.progress import Pace, Progress
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
        if running.quiet and running.verbose:
            raise ValueError("--quiet cannot be combined with --verbose.")
        self.errors = Console(stderr=True, soft_wrap=True)
        self._out = self.errors if summary_to_stderr else Output()
        self._json_file = sys.stderr if summary_to_stderr else sys.stdout
        # Where labels run through the terminal there is no place for a line that stays.
        self._crowded = summary_to_stderr and sys.stdout.isatty()
        self._running = running
        self._pace = Pace(verbose=running.verbose)

    @property
    def shows_progress(self) -> bool:
        """Whether progress is shown in any way."""
        return self._running.verbose or not (self._running.quiet or self._running.json)

    @property
    def _draws(self) -> bool:
        """Whether there is a terminal to draw on; elsewhere progress is a log."""
        watched = self.errors.is_terminal and not self.errors.is_dumb_terminal
        return watched and self.shows_progress and not (self._running.json or self._crowded)

    @contextmanager
    def progress(self, what: str, path: Path | None = None) -> Iterator[Callable[..., None]]:
        """Show how far a piece of work is; call it with the share done and, if need be, remarks.

        With the path of the file that is worked on the remark is how fast. The work may come to
        another `phase`, whose time is counted from there, and to another `part` of it.
        """
        if not self.shows_progress:
            yield lambda share, *remarks, phase="", part="": None
            return
        size = path.stat().st_size if path is not None and path.is_file() else 0
        progress = Progress(what)
        with self._drawn(progress) as refresh:

            def show(share: float, *remarks: str, phase: str = what, part: str = "") -> None:
                if phase != progress.phase:
                    self._tell_time(progress)
                    progress.begin(phase)
                speed = f"{share * size / max(progress.seconds, 1e-9) / 1e6:,.0f} MB/s"
                progress.move(share, remarks or ((speed,) if size else ()), part)
                told = bool(remarks) and self._running.verbose
                if told or (not self._draws and self._pace.due()):
                    self._line(progress.logged())
                refresh()

            yield show
            self._tell_time(progress)

    def _tell_time(self, progress: Progress) -> None:
        if self._running.verbose:
            self._line(f"{progress.phase}: {progress.seconds:.1f} s")

    @contextmanager
    def _drawn(self, progress: Progress) -> Iterator[Callable[[], object]]:
        """Keep a line on the terminal; what this gives draws it anew where nothing else does."""
        if not self._draws:
            yield lambda: None
            return
        # Where there is no thread to be had the bar moves only with the work.
        probe = start_thread(lambda: None)
        if probe is not None:
            probe.join()
        with Live(
            progress,
            console=self.errors,
            transient=True,
            auto_refresh=probe is not None,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live:
            yield live.refresh if probe is None else lambda: None

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
            self._line(line)

    def _warn(self, message: Any, *_: Any, **__: Any) -> None:
        if not self._running.quiet:
            self._line(f"warning: {in_options(str(message))}")

    def _line(self, text: str) -> None:
        self.errors.print(text, markup=False, highlight=False)

    def result(self, summary: dict[str, Any], *lines: Any) -> None:
        """The end of a command: for machines the summary, for people the lines."""
        if self._running.json:
            self._json_file.write(json.dumps(_strict(summary), allow_nan=False) + "\n")
        elif not self._running.quiet:
            for line in lines:
                one_line = isinstance(line, str)
                self._out.print(line, highlight=False, markup=False, soft_wrap=one_line)


def _strict(value: Any) -> Any:
    """A value as JSON can hold it, which knows no infinity."""
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
