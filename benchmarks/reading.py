"""How fast a svmlight file of 500 MB is read, against scikit-learn's load_svmlight_file.

`python -m benchmarks.reading SYSTEM FILE THREADS` is one measurement, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from . import memory
from .data import ROOT
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio

SIZE = 500_000_000  # bytes
DISTINCT = 25_000_000  # bytes after which the text repeats, to make it in seconds
REPEATS = 3
OURS, PEER = "sparsecluster", "sklearn"


def run(options: Options, harness: Harness, report: Report) -> None:
    """Both in turns; the first turn finds the file in the disk cache, as it was just written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.svm"
        n_bytes = write(path)
        report.tell(
            f"reading a svmlight file of {n_bytes / 1e6:.0f} MB as float32, {REPEATS} turns"
        )
        turns: dict[str, list[dict[str, float]]] = {PEER: [], OURS: []}
        for _ in range(REPEATS):
            for system, found in turns.items():
                found.append(measure(system, path, options.threads))
    middle = {
        system: {name: median(turn[name] for turn in found) for name in found[0]}
        for system, found in turns.items()
    }
    for system, one in middle.items():
        report.tell(
            f"{system:14}{one['seconds']:8.2f} s {n_bytes / one['seconds'] / 1e6:8.0f} MB/s   peak "
            f"{one['MB']:.0f} MB"
        )
    report.record["reading"] = {"bytes": n_bytes, "turns": turns}
    mine, theirs = middle[OURS]["seconds"], middle[PEER]["seconds"]
    note = f"{n_bytes / mine / 1e6:.0f} MB/s"
    ratio = Ratio("reading", "svmlight", 0, mine, theirs, theirs / mine, PEER, note=note)
    report.ratios("reading svmlight against scikit-learn", [ratio], "10x", "15x")


def write(path: Path) -> int:
    """Rows of about 100 ascending columns with values of six digits; always the same."""
    random = np.random.default_rng(0)
    lines: list[str] = []
    size = 0
    while size < DISTINCT:
        columns = np.unique((random.random(random.poisson(100)) ** 3 * 100_000).astype(int) + 1)
        values = random.random(len(columns)) ** 2
        entries = (f"{c}:{v:.6g}" for c, v in zip(columns.tolist(), values.tolist(), strict=True))
        lines.append(f"{random.integers(20)} {' '.join(entries)}\n")
        size += len(lines[-1])
    text = "".join(lines).encode()
    with path.open("wb") as file:
        for _ in range(-(-SIZE // len(text))):
            file.write(text)
    return path.stat().st_size


def measure(system: str, path: Path, threads: int) -> dict[str, float]:
    command = (sys.executable, "-m", "benchmarks.reading", system, str(path), str(threads))
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)


def read_ours(path: Path, threads: int) -> Any:
    from sparsecluster.formats.svmlight import SvmlightSource

    return list(SvmlightSource(path, n_threads=threads, block_bytes=None).blocks())


def read_peer(path: Path, threads: int) -> Any:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), dtype=np.float32)


READERS: dict[str, Callable[[Path, int], Any]] = {OURS: read_ours, PEER: read_peer}


def main() -> None:
    """Time one reader, after a warm-up on a tiny file for the imports."""
    system, path, threads = sys.argv[1:]
    reader = READERS[system]
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.svm"
        tiny.write_text("1 1:0.5\n")
        reader(tiny, int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    read = reader(Path(path), int(threads))
    seconds = time.perf_counter() - clock
    highest = memory.peak() or 0.0
    del read
    sys.stdout.write(json.dumps({"seconds": seconds, "MB": highest - before}))


if __name__ == "__main__":
    main()
