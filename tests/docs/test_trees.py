"""The code of docs/trees.md, run from top to bottom."""

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[2] / "docs" / "trees.md").read_text()


def test_the_page_runs():
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), names)
    assert np.bincount(names["tree"].labels_).tolist() == [50] * 16
    assert names["chain"][-1].shape == (60, names["label_tree"].n_leaves_)
