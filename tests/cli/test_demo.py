"""The demo: the table that a user sees."""

import os
import subprocess
import sys

# Nobody has to install an extra to see it.
WITHOUT_EXTRAS = """
import sys
extras = ["pyarrow", "h5py", "zstandard", "jinja2", "pandas", "safetensors"]
sys.modules.update(dict.fromkeys(extras))
from sparsecluster.cli import main
main()
"""


def test_demo_prints_a_row_for_each_cluster():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, "demo", "--clusters", "12", "--terms", "5"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        env={**os.environ, "COLUMNS": "160", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    labels = [int(row[1]) for row in rows if row[1].strip()]
    sizes = [int(row[2].replace(",", "")) for row in rows if row[2].strip()]
    assert sorted(labels) == list(range(12))
    assert sizes == sorted(sizes, reverse=True)
    assert "12 clusters from seed 0" in done.stdout
    assert "clustering" in done.stdout
