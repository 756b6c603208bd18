"""Every script of the gallery runs, and leaves a picture of its name."""

import os
import runpy
import sys
from pathlib import Path

import pytest
from support.processes import forked

pytest.importorskip("matplotlib")
pytest.importorskip("rapidfuzz")

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "gallery")


@pytest.fixture(scope="module", autouse=True)
def pictures_can_be_drawn():
    """Loads, once, what all scripts need."""
    import matplotlib.pyplot  # noqa: F401


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_script_leaves_a_picture(script, tmp_path):
    def program():
        os.environ["MPLCONFIGDIR"] = str(tmp_path / "config")
        sys.argv = [str(script), str(tmp_path)]
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")

    done = forked(program)
    assert done.returncode == 0, done.stderr.decode()
    picture = tmp_path / f"{script.stem}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
