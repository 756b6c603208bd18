"""Peers that want other libraries than ours: each gets an environment of its own in `build/`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from .data import ROOT
from .report import Report


def python_with(
    report: Report, name: str, module: str, *installs: Sequence[str], always_own: bool = False
) -> str | None:
    """An interpreter that can import a module; None, and a word why, where it cannot be had.

    `installs` are the arguments of one call of pip each. `always_own`: even where the module is
    installed here.
    """
    if not always_own and find_spec(module.split(".")[0]):
        return sys.executable
    home = ROOT / "build" / name
    python = str(home / "bin" / "python")
    quietly: dict[str, Any] = {"check": True, "capture_output": True}
    importing = [python, "-c", f"import {module}"]
    try:
        if not (home / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], **quietly)
        if subprocess.run(importing, capture_output=True).returncode:
            report.tell(f"installing {name} into {home}")
            pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            for arguments in installs:
                subprocess.run([*pip, *arguments], **quietly)
        subprocess.run(importing, **quietly)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        report.tell(f"{name} cannot be installed: {said[-1] if said else error}")
        return None
    return python
