"""Command line: `python -m benchmarks [COMMAND] [options]`; the README lists the commands."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from . import (
    batches,
    data,
    embedding,
    evaluation,
    full,
    hierarchy,
    larger,
    machines,
    memory,
    neighbors,
    quick,
    reading,
    scaling,
    size,
    sizes,
    startup,
    trees,
)
from .harness import Harness
from .options import Options
from .report import Report
from .systems import SYSTEMS


def quick_and_reading(options: Options, harness: Harness, report: Report) -> None:
    """The default: everything that is measured in minutes."""
    quick.run(options, harness, report)
    reading.run(options, harness, report)


COMMANDS = {
    "quick": quick_and_reading,
    "full": full.run,
    "batches": batches.run,
    "scaling": scaling.run,
    "import": startup.run,
    "reading": reading.run,
    "larger": larger.run,
    "machines": machines.run,
    "neighbors": neighbors.run,
    "embedding": embedding.run,
    "hierarchy": hierarchy.run,
    "evaluation": evaluation.run,
    "size": size.run,
    "sizes": sizes.run,
    "trees": trees.run,
}
WITHOUT_DATA = ("import", "reading", "larger", "size")
TIMEOUTS = {"quick": 120.0, "full": 900.0, "scaling": 120.0, "batches": 600.0, "larger": 900.0}
TIMEOUTS["machines"] = TIMEOUTS["size"] = 900.0
TIMEOUTS["embedding"] = TIMEOUTS["neighbors"] = TIMEOUTS["trees"] = TIMEOUTS[
    "evaluation"
] = TIMEOUTS["sizes"] = 600.0
WIDTH = 118  # of the widest table; a narrower terminal wraps it rather than cut figures off
RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    """The options are the same for every command."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description="sparsecluster against its peers."
    )
    made.add_argument("command", nargs="?", default="quick", choices=COMMANDS)
    made.add_argument("--data", nargs="+", metavar="SET", help="data sets, or `zipf` (synthetic)")
    made.add_argument("--k", nargs="+", type=int, metavar="K", help="numbers of clusters")
    made.add_argument("--seeds", type=int, metavar="N", help="how many seeds (0 .. N-1)")
    made.add_argument("--systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM",
                      help="systems: " + ", ".join(SYSTEMS))  # fmt: skip
    made.add_argument("--parts", nargs="+", metavar="PART",
                      choices=(*full.PARTS, *size.PARTS, *embedding.PARTS, *machines.PARTS),
                      help="parts of `full`: " + ", ".join(full.PARTS)
                      + "; of `size`: " + ", ".join(size.PARTS)
                      + "; of `embedding`: " + ", ".join(embedding.PARTS)
                      + "; of `machines`: " + ", ".join(machines.PARTS))  # fmt: skip
    made.add_argument("--threads", type=int, default=2, help="threads of every system (2)")
    made.add_argument("--timeout", type=float, metavar="SECONDS", help="stop a run after this")
    made.add_argument("--cut", type=float, metavar="X",
                      help="stop a peer at X times the fastest one (full, size: 2)")  # fmt: skip
    made.add_argument("--memory", type=float, metavar="GB",
                      help="stop a process above this (60%% of the machine)")  # fmt: skip
    made.add_argument("--size", type=float, metavar="MB",
                      help=f"size of the store of `larger` ({larger.SIZE})")  # fmt: skip
    rows = f"of `size` ({size.ROWS}) and `machines` ({machines.MORE_ROWS})"
    made.add_argument("--rows", type=int, metavar="N", help=rows)
    made.add_argument("--profile", action="store_true",
                      help="where the time of a pass goes, of `size`")  # fmt: skip
    made.add_argument("--limit", type=float, metavar="MB",
                      help="what a process of `larger` may use (a third)")  # fmt: skip
    made.add_argument("--out", type=Path, metavar="FILE", help="JSON file; the plot lies beside it")
    made.add_argument("--resume", action="store_true",
                      help="take the peers' runs from the file of --out")  # fmt: skip
    return made


def main() -> None:
    made = parser()
    parsed = made.parse_args()
    console = Console()
    console.width = max(console.width, WIDTH)
    check_data(made, console, parsed)
    if parsed.resume and not (parsed.out and parsed.out.exists()):
        made.error("--resume needs --out with the file of an earlier run")
    earlier = json.loads(parsed.out.read_text())["runs"] if parsed.resume else []
    out = parsed.out or RESULTS / f"{parsed.command}.json"
    report = Report(console, out, {name: str(value) for name, value in vars(parsed).items()})
    harness = Harness(
        timeout=parsed.timeout or TIMEOUTS.get(parsed.command, 60.0),
        memory_limit=parsed.memory * 1000 if parsed.memory else 0.6 * memory.total(),
        cut=parsed.cut or (2.0 if parsed.command in ("full", "size") else None),
        earlier=earlier, tell=report.tell, save=report.save, runs=report.record["runs"],
    )  # fmt: skip
    COMMANDS[parsed.command](Options(parsed), harness, report)
    report.close()


def check_data(made: argparse.ArgumentParser, console: Console, parsed: argparse.Namespace) -> None:
    """Say where data is missing, before any work."""
    present = data.available()
    unknown = set(parsed.data or ()) - {*present, data.SYNTHETIC}
    if unknown and present:
        made.error(f"no data set {', '.join(sorted(unknown))} in {data.folder()}; "
                   f"there are {', '.join(present)} and {data.SYNTHETIC}")  # fmt: skip
    if not present and parsed.command not in WITHOUT_DATA and parsed.data != [data.SYNTHETIC]:
        console.print(
            f"No data sets in {data.folder()} (set SPARSECLUSTER_DATA to their folder): "
            "using a synthetic set with Zipf-distributed words instead.", style="yellow",
        )  # fmt: skip
        parsed.data = [data.SYNTHETIC]


if __name__ == "__main__":
    main()
