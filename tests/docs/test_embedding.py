"""The code of docs/embedding.md, run from top to bottom."""

import re
from pathlib import Path

import numpy as np

from sparsecluster import SparseEmbedding

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text()


def test_the_page_runs():
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), names)
    assert names["Z"].shape == names["stored"].shape == (1000, 500)
    assert names["by_rule"].n_components_ == 1500
    assert {one.space for one in names["paper"].history_} == {"embedded"}
    assert {one.space for one in names["km"].history_} == {"embedded", "original"}
    assert names["km"].inertia_ <= names["paper"].inertia_ * 1.01


def test_the_rule_asks_for_as_many_components_as_the_page_says():
    wide = np.zeros((1, 2000))
    rule = SparseEmbedding(n_clusters=20, eps=0.5, delta=0.1).fit(wide)
    assert f"{rule.n_components_:,} components" in PAGE
