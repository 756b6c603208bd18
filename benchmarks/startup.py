"""How long it takes to import the package and to ask for help, each in fresh processes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio

REPEATS = 9


def run(options: Options, harness: Harness, report: Report) -> None:
    """The differences count: of the import over sklearn's base, of the help over bare Python."""
    seconds = time_commands(commands())
    for label, value in seconds.items():
        shown = "not installed" if value is None else f"{value:8.3f} s"
        report.tell(f"{label:28}{shown}")
    report.record["startup"] = seconds
    importing = difference(seconds, "import sparsecluster", "import sklearn.base")
    helping = difference(seconds, "sparsecluster --help", "bare python")
    report.ratios("import over `import sklearn.base`", [importing], "0.15 s or less", "0.05 s")
    report.ratios("`sparsecluster --help` over bare Python", [helping], "0.6 s or less")


def commands() -> dict[str, list[str]]:
    script = Path(sys.executable).with_name("sparsecluster")
    return {
        "bare python": [sys.executable, "-c", "pass"],
        "import sklearn.base": [sys.executable, "-c", "import sklearn.base"],
        "import sparsecluster": [sys.executable, "-c", "import sparsecluster"],
        "sparsecluster --help": [str(script), "--help"],
    }


def time_commands(listed: dict[str, list[str]]) -> dict[str, float | None]:
    """Median seconds of each, in turns; the first turn only fills the disk cache."""
    times: dict[str, list[float]] = {label: [] for label in listed}
    working = {label: command for label, command in listed.items() if once(command) is not None}
    for _ in range(REPEATS):
        for label, command in working.items():
            times[label].append(once(command) or 0.0)
    return {label: median(taken) if taken else None for label, taken in times.items()}


def once(command: list[str]) -> float | None:
    clock = time.perf_counter()
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return time.perf_counter() - clock


def difference(seconds: dict[str, float | None], ours: str, other: str) -> Ratio | None:
    mine, theirs = seconds[ours], seconds[other]
    if mine is None or theirs is None:
        return None
    return Ratio(
        "startup", ours, 0, mine, theirs, mine / theirs, other, note=f"{mine - theirs:+.3f} s"
    )
