"""Every script of the gallery runs, and leaves a picture of its name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rapidfuzz")

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "gallery")


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_script_leaves_a_picture(script, tmp_path):
    environment = os.environ | {"MPLCONFIGDIR": str(tmp_path / "config")}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    picture = tmp_path / f"{script.stem}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
