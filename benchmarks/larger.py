"""Data larger than memory: convert and fit inside a memory limit, against a fit in memory.

A svmlight file is made up, converted and fitted by the command line, in processes that may use a
third of the store's size; labels must be those of a fit in memory. What holds the limit is told.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from .data import ROOT
from .harness import Harness
from .options import Options
from .report import Report

SIZE = 900  # MB of the store
SHARE = 3  # times that the limit fits into the store
CLUSTERS = 20
ITERATIONS = 10
ENTRIES = 40  # of a row
COLUMNS = 100_000
TOPICS = 200
BYTES_OF_ENTRY = 8  # in a store: a column and a float32
BYTES_OF_ROW = 24  # and where it begins, its norm, its label
BLOCK = 50_000  # rows that are made at a time
GROUPS_1 = Path("/sys/fs/cgroup/memory")
GROUPS_2 = Path("/sys/fs/cgroup")
PEAKS = ("memory.max_usage_in_bytes", "memory.peak", "memory.current")


def run(options: Options, harness: Harness, report: Report) -> None:
    """Convert and fit twice, by Euclidean distances and by cosine."""
    size = options.parsed.size or SIZE
    limit = options.parsed.limit or size / SHARE
    k = (options.parsed.k or [CLUSTERS])[0]
    with tempfile.TemporaryDirectory(dir=disk()) as name:
        folder = Path(name)
        with memory_limit(int(limit * 1e6)) as limited:
            report.tell(f"the limit of {limit:.0f} MB is held by {limited.held_by}")
            if not limited.counts_files:
                report.console.print(
                    "No control group can be made here: pages of files are not limited, so this "
                    "does not show that the store may be larger than memory.", style="bold red",
                )  # fmt: skip
            bench = Bench(folder, limited, harness.timeout, options.threads, k, report)
            bench.make(size)
            for metric in ("euclidean", "cosine"):
                bench.compare(metric)
    table(report, bench.steps, f"larger than memory: K={k}, at most {ITERATIONS} iterations")
    report.record["larger"] = {
        "size": size, "limit": limit, "held_by": limited.held_by,
        "steps": [asdict(step) for step in bench.steps],
    }  # fmt: skip
    report.save()


# --- the limit -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """How a command is limited: what comes before it on its command line."""

    held_by: str
    prefix: tuple[str, ...] = ()
    counts_files: bool = True
    group: Path | None = None

    def forget_peak(self) -> None:
        """Measure the peak anew, where the kernel can (version 1)."""
        with suppress(OSError):
            if self.group and (self.group / PEAKS[0]).exists():
                (self.group / PEAKS[0]).write_text("0")


def entering(group: Path) -> tuple[str, ...]:
    """The start of a command that runs in a control group."""
    return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"))


@contextmanager
def memory_limit(limit: int) -> Iterator[Limit]:
    """The strictest limit that can be had here, for as long as it is needed."""
    for root, name, held_by in (
        (GROUPS_1, "memory.limit_in_bytes", "a control group (version 1)"),
        (GROUPS_2, "memory.max", "a control group (version 2)"),
    ):
        group = root / f"sparsecluster-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if allow(group, name, limit):
                yield Limit(held_by, entering(group), group=group)
                return
        finally:
            leave(group)
    scope = (
        "systemd-run",
        "--scope",
        "--quiet",
        "-p",
        f"MemoryMax={limit}",
        "-p",
        "MemorySwapMax=0",
    )
    for command in (scope, (scope[0], "--user", *scope[1:])):
        with suppress(OSError, subprocess.TimeoutExpired):
            if subprocess.run((*command, "true"), capture_output=True, timeout=20).returncode == 0:
                yield Limit(" ".join(command[:2]), command)
                return
    ulimit = ("sh", "-c", f'ulimit -d {limit // 1024} && exec "$@"', "sh")
    yield Limit("ulimit -d, which does not count files", ulimit, counts_files=False)


def allow(group: Path, name: str, limit: int) -> bool:
    """Limit a group that was made; False where it has no say about memory."""
    if not (group / name).exists():
        return False
    try:
        (group / name).write_text(str(limit))
        for swap, most in (("memory.memsw.limit_in_bytes", limit), ("memory.swap.max", 0)):
            with suppress(OSError):
                if (group / swap).exists():
                    (group / swap).write_text(str(most))
        return subprocess.run((*entering(group), "true"), capture_output=True).returncode == 0
    except OSError:
        return False


def leave(group: Path) -> None:
    """Remove a group, once the kernel has let go of its last process."""
    for _ in range(50):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def group_file(pid: int, names: tuple[str, ...]) -> Path | None:
    """A file of the control group for memory that a process is in."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            root = GROUPS_1 if controllers else GROUPS_2
            for name in names:
                if (found := root / path.lstrip("/") / name).exists():
                    return found
    return None


# --- what is measured ----------------------------------------------------------------------------


@dataclass
class Step:
    """One command: how it went, how long it took, and its highest memory in MB."""

    what: str
    limited: bool
    status: int
    seconds: float  #: of the whole process
    fit_seconds: float | None = None
    group_peak: float | None = None
    anonymous_peak: float = 0.0
    read: float = 0.0  #: MB that came from the disk
    iterations: int | None = None
    equal: bool | None = None
    said: str = ""


class Bench:
    """The file, and the commands that work on it one after the other."""

    def __init__(
        self, folder: Path, limit: Limit, timeout: float, threads: int, k: int, report: Report
    ) -> None:
        self.folder, self.limit, self.timeout, self.report = folder, limit, timeout, report
        self.options = ("--threads", str(threads), "--json")
        self.fit = ("-k", str(k), "--max-iter", str(ITERATIONS), "--seed", "0", *self.options)
        self.file = folder / "rows.svm"
        self.steps: list[Step] = []

    def make(self, size: float) -> None:
        """Write the svmlight file for a store of so many MB."""
        n_rows = int(size * 1e6 / (ENTRIES * BYTES_OF_ENTRY + BYTES_OF_ROW))
        started = time.perf_counter()
        write(self.file, n_rows)
        self.report.tell(
            f"{n_rows:,} rows of {ENTRIES} entries in {self.file.stat().st_size / 1e6:,.0f} MB of "
            f"svmlight, made in {time.perf_counter() - started:.0f} s"
        )

    def compare(self, metric: str) -> None:
        """Fit by one metric in memory, from a store, and from a store within the limit."""
        store = self.folder / f"{metric}.store"
        unit = ("--unit",) if metric == "cosine" else ()
        fit = ("--metric", metric, *self.fit)
        self.step(f"convert, {metric}", "convert", self.file, store, *unit, *self.options)
        if not store.exists():
            return
        stored = sum(file.stat().st_size for file in store.iterdir())
        self.report.tell(f"the store ({metric}) has {stored / 1e6:,.0f} MB")
        expected = self.labels(f"fit in memory, {metric}", self.file, *unit, *fit, limited=False)
        for limited in (False, True):
            what = f"fit from the store, {metric}"
            found = self.labels(what, store, *fit, limited=limited)
            if found is not None and expected is not None:
                self.steps[-1].equal = np.array_equal(found, expected)
        shutil.rmtree(store)

    def labels(self, what: str, data: Path, *options: str, limited: bool) -> np.ndarray | None:
        """The labels that a fit gives, or None where it failed."""
        out = self.folder / "labels.npy"
        out.unlink(missing_ok=True)
        self.step(what, "fit", data, *options, "--labels", out, limited=limited)
        return np.load(out) if out.exists() else None

    def step(self, what: str, *arguments: Any, limited: bool = True) -> None:
        """Run a command to its end, and watch it."""
        forget_pages(self.folder)
        self.limit.forget_peak()
        command = (sys.executable, "-m", "sparsecluster", *map(str, arguments))
        started = time.perf_counter()
        with (self.folder / "said").open("w+") as said:
            process = subprocess.Popen(
                (*(self.limit.prefix if limited else ()), *command),
                cwd=ROOT, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            step = Step(what, limited, 0, 0.0)
            try:
                while process.poll() is None:
                    watch(process.pid, step)
                    if time.perf_counter() - started > self.timeout:
                        process.kill()
                    time.sleep(0.01)
            finally:
                process.kill()
            said.seek(0)
            step.said = said.read()
        step.status, step.seconds = process.returncode, time.perf_counter() - started
        with suppress(ValueError, IndexError):
            summary = json.loads(step.said.splitlines()[-1])
            step.fit_seconds, step.iterations = summary["seconds"], summary.get("iterations")
        if not limited:
            step.group_peak = None
        ended = "" if step.status == 0 else f", {ending(step.status)} {step.said}"
        self.report.tell(f"{what}: {step.seconds:.1f} s{ended}")
        self.steps.append(step)


def ending(status: int) -> str:
    """How a process ended; the kernel kills what goes beyond its group's limit."""
    if status == 0:
        return "well"
    return f"killed ({signal.Signals(-status).name})" if status < 0 else f"status {status}"


def watch(pid: int, step: Step) -> None:
    """Keep the highest memory of a process and of its group."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                now = int(line.split()[1]) * 1024 / 1e6
                step.anonymous_peak = max(step.anonymous_peak, now)
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                step.read = int(line.split()[1]) / 1e6
        file = group_file(pid, PEAKS)
        # Before it enters its group it is in ours, and when it has ended in that of all.
        others = (None, group_file(os.getpid(), PEAKS), GROUPS_1 / PEAKS[0], GROUPS_2 / PEAKS[0])
        if file not in others:
            step.group_peak = max(step.group_peak or 0.0, int(file.read_text()) / 1e6)


def forget_pages(folder: Path) -> None:
    """Have the kernel drop what it holds of the files, else the limited process would find it."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk() -> str:
    """A folder for large files: the usual one, unless it is in memory."""
    usual = tempfile.gettempdir()
    longest, kind = "", ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, found, *_ = line.split()
        if os.path.commonpath([usual, place]) == place and len(place) > len(longest):
            longest, kind = place, found
    return str(ROOT) if kind in ("tmpfs", "ramfs") else usual


# --- the file ------------------------------------------------------------------------------------


def write(path: Path, n_rows: int) -> None:
    """Rows of a topic each: half of their columns are any, half those of the topic, all skewed."""
    random = np.random.default_rng(0)
    offsets = random.integers(0, COLUMNS, TOPICS)
    with path.open("wb") as file:
        for begin in range(0, n_rows, BLOCK):
            n = min(BLOCK, n_rows - begin)
            topics = random.integers(0, TOPICS, n)
            columns = (random.random((n, ENTRIES)) ** 3 * COLUMNS).astype(np.int64)
            own = columns[:, : ENTRIES // 2]
            own[:] = (own // 50 + offsets[topics, None]) % COLUMNS
            columns.sort(axis=1)
            columns += np.arange(1, ENTRIES + 1)  # ascending, and none of them twice
            values = 1 + (random.random((n, ENTRIES)) ** 2 * 9998).astype(np.int64)
            file.write(lines(topics, columns, values))


def lines(topics: np.ndarray, columns: np.ndarray, values: np.ndarray) -> bytes:
    """As text of fixed width, all at once: ` 012345:6.789` an entry."""
    text = np.empty((*columns.shape, 13), dtype=np.uint8)
    text[:, :, [0, 7, 9]] = np.frombuffer(b" :.", dtype=np.uint8)
    for place, power in zip(range(1, 7), (10**5, 10**4, 1000, 100, 10, 1), strict=True):
        text[:, :, place] = columns // power % 10 + ord("0")
    for place, power in zip((8, 10, 11, 12), (1000, 100, 10, 1), strict=True):
        text[:, :, place] = values // power % 10 + ord("0")
    whole = np.empty((len(topics), 4 + text[0].size), dtype=np.uint8)
    for place, power in zip(range(3), (100, 10, 1), strict=True):
        whole[:, place] = topics // power % 10 + ord("0")
    whole[:, 3:-1] = text.reshape(len(topics), -1)
    whole[:, -1] = ord("\n")
    return whole.tobytes()


def table(report: Report, steps: list[Step], title: str) -> None:
    """What happened, a line a command."""
    made = Table(title=title, title_justify="left")
    for name in ("command", "limit", "ended", "s", "fit s", "iter", "MB group", "MB anon",
                 "MB read", "labels"):  # fmt: skip
        left = name == "command"
        made.add_column(name, justify="left" if left else "right", no_wrap=left)
    for step in steps:
        made.add_row(
            step.what, "yes" if step.limited else "no",
            ending(step.status),
            f"{step.seconds:.1f}", shown(step.fit_seconds), shown(step.iterations, 0),
            shown(step.group_peak, 0), shown(step.anonymous_peak, 0),
            shown(step.read, 0),
            {None: "", True: "equal", False: "DIFFER"}[step.equal],
        )  # fmt: skip
    report.console.print(made)


def shown(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"
