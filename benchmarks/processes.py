"""A piece of work in processes of its own, some times over."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from .data import ROOT


def of_processes(module: str, *arguments: Any, turns: int, timeout: float) -> dict[str, Any]:
    """What `python -m module arguments` prints as JSON: of seconds and megabytes the medians of all
    turns, the answer of the first; a message where it fails."""
    command = (sys.executable, "-m", module, *map(str, arguments))
    found = []
    try:
        for _ in range(turns):
            done = subprocess.run(
                command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=timeout
            )
            found.append(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return {"message": f"stopped after {timeout:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {"message": error.stderr.strip().splitlines()[-1] if error.stderr else "failed"}
    middle = {key: median(one[key] for one in found) for key in ("seconds", "MB")}
    return middle | {"answer": found[0]["answer"]}
