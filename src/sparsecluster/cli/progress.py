"""How far a piece of work is: a line that fits the terminal, or now and then a line of a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

GAP = "  "
LEAST_BAR, USUAL_BAR, LONG_BAR, WIDE = 6, 20, 40, 120
FIRST_LOGGED, LEAST_OFTEN = 10.0, 600.0  # seconds


class Pace:
    """When a log gets its next line: soon at first, then less and less often."""

    def __init__(self, *, verbose: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._verbose = clock, verbose
        self._interval = 1.0 if verbose else FIRST_LOGGED
        self._next = clock() + self._interval

    def due(self) -> bool:
        """Whether it is time; a line is then expected to be written."""
        now = self._clock()
        if now < self._next:
            return False
        if not self._verbose:
            self._interval = min(2 * self._interval, LEAST_OFTEN)
        self._next = now + self._interval
        return True


class Progress:
    """What is being done, the share that is done, the time that is left, and remarks.

    Rich draws it at the width of the terminal: first come share and time left, then the name of the
    work, the bar, and as many remarks as there is room for. Nothing is cut: it is there or not.
    """

    def __init__(self, phase: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin(phase)

    def begin(self, phase: str) -> None:
        """Time is counted from here."""
        self.phase, self._started = phase, self._clock()
        self.move(0.0)

    def move(self, share: float, remarks: tuple[str, ...] = (), part: str = "") -> None:
        """So much is done."""
        self.share, self.remarks, self.part = min(max(share, 0.0), 1.0), remarks, part

    @property
    def names(self) -> list[str]:
        """What is being done, from the longest to the shortest name."""
        if self.part:
            return [f"{self.phase}, {self.part}", self.part]
        return [self.phase, self.phase.split()[0]]

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._clock() - self._started

    @property
    def figures(self) -> str:
        """Share and time left, as wide at the beginning as at the end."""
        left = self.seconds * (1 / self.share - 1) if self.share > 0 else None
        return f"{math.floor(100 * self.share):3d}%  {_clock_time(left) + ' left':<12}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width, figures = options.max_width, self.figures
        room = width - len(figures)
        named = room - len(GAP)
        name = next((one for one in self.names if len(one) <= named - LEAST_BAR - len(GAP)), "")
        name = name or next((one for one in self.names if len(one) <= named), "")
        line = Text(name and name + GAP)
        room -= len(line)
        bar = LONG_BAR if width >= WIDE else USUAL_BAR
        if room >= LEAST_BAR + len(GAP):
            drawn = _bar(self.share, min(bar, room - len(GAP)), ascii_only=options.ascii_only)
            line.append_text(drawn).append(GAP)
            room -= len(drawn) + len(GAP)
        line.append(figures)
        before = GAP
        for remark in self.remarks:
            if len(before) + len(remark) > room:
                break
            line.append(before + remark, style="dim")
            room -= len(before) + len(remark)
            before = ", "
        line.no_wrap, line.overflow = True, "crop"
        yield line

    def logged(self) -> str:
        """The same as a line of a log."""
        share, left = self.figures.split(maxsplit=1)
        known = [share, left.rstrip()] if self.share > 0 else [share]
        return f"{self.names[0]}: {', '.join([*known, *self.remarks])}"


def _bar(share: float, width: int, *, ascii_only: bool) -> Text:
    done = math.floor(share * width)
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    return Text.assemble((full * done, "bar.complete"), (empty * (width - done), "dim"))


def _clock_time(seconds: float | None) -> str:
    """Minutes and seconds, or hours, or days."""
    if seconds is None:
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours // 24} d" if hours < 24 * 1000 else "> 999 d"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _speed(record: Any) -> list[str]:
    """Rows per second, of each worker where there are some; and parts that were rebuilt."""
    speed = record.rows / max(record.seconds, 1e-9)
    if record.machines is None:
        return [f"{speed:,.0f} rows/s"]
    workers, rebuilt = record.machines
    shown = [f"{counted(workers, 'worker')}", f"{speed / workers:,.0f} rows/s each"]
    return [*shown, f"{counted(rebuilt, 'part')} rebuilt"] if rebuilt else shown


class Iterations:
    """Progress of k-means, as its callback: seeding, then rows that still move."""

    def __init__(self, show: Any, n_rows: int, n_runs: int, max_iter: int) -> None:
        self._show, self._all, self._n_runs = show, math.log1p(n_rows), n_runs
        self._max_iter = max_iter
        self._seeded, self._settled = dict[int, float](), dict[int, float]()
        self._latest = 0

    def on_seeding(self, record: Any) -> None:
        """So much of the centers of a run are chosen."""
        self._seeded[record.run] = record.share
        self._tell("seeding", record, record.share)

    def on_assignment(self, record: Any) -> None:
        """So much of an assignment within size bounds is done."""
        self._seeded[record.run] = 1.0
        share = self._settled.setdefault(record.run, 0.0)
        part = f"iteration {record.iteration}: {math.floor(100 * record.share)}%"
        self._tell("clustering", record, share, part)

    def __call__(self, record: Any) -> None:
        rest = math.log1p(record.moved) / self._all if self._all else 0.0
        before = self._settled.get(record.run, 0.0)
        share = max(before, 1.0 - rest, min(1.0, record.iteration / self._max_iter))
        self._seeded[record.run], self._settled[record.run] = 1.0, share
        remarks = (
            f"iteration {record.iteration}",
            f"{counted(record.moved, 'row')} moved",
            f"cost {record.cost:.6g}",
            *_speed(record),
        )
        embedded = record.space == "embedded"
        self._tell(
            "clustering embedded rows" if embedded else "clustering", record, share, *remarks
        )

    def _tell(self, phase: str, record: Any, share: float, *remarks: str) -> None:
        if self._n_runs == 1:
            self._show(share, *remarks, phase=phase)
            return
        # Runs may take turns: what is shown goes forward all the same.
        self._latest = max(self._latest, record.run + 1)
        halves = sum(self._seeded.values()) + sum(self._settled.values())
        part = f"run {self._latest} of {self._n_runs}"
        self._show(halves / (2 * self._n_runs), *remarks, phase="clustering", part=part)
