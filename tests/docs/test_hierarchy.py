"""The code of docs/hierarchy.md, run from top to bottom."""

import re
from pathlib import Path

import numpy as np

from sparsecluster.distances.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "hierarchy.md").read_text()


def test_the_page_runs():
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), names)
    model = names["model"]
    assert model.n_clusters_ == 3
    assert np.array_equal(model.labels_, np.repeat([0, 1, 2], 20))


def test_all_metrics_and_their_options_are_listed():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 4]
    table = "\n".join(rows)
    for name, metric in METRICS.items():
        for word in (name, *metric.options):
            assert f"`{word}`" in table, word
