"""The walk of a scikit-learn user runs, and with scikit-learn's own estimators it ends alike."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "walks" / "scikit-learn.md"
OURS = "from sparsecluster import KMeans, MiniBatchKMeans"


@pytest.fixture(scope="module")
def script():
    return "".join(
        re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    )


def test_only_the_import_differs(script, corpus, monkeypatch):
    assert script.count("sparsecluster") == 2  # the estimators, and texts to try them on
    assert OURS in script
    monkeypatch.setattr("sparsecluster.datasets.docstrings.load_docstrings", lambda: corpus)
    ours, theirs = {}, {}
    exec(script, ours)
    exec(script.replace(OURS, "from sklearn.cluster import KMeans, MiniBatchKMeans"), theirs)
    assert ours["scores"].keys() == theirs["scores"].keys() == {"tf-idf", "LSA", "batches"}
    assert np.all(np.array([*ours["scores"].values()])[:, 0] > 0.2)
    for name, rows in (("kmeans", "X_lsa"), ("batches", "hashed")):
        cost, others = (-one[name].score(one[rows]) for one in (ours, theirs))
        assert cost < 1.05 * others
    assert {"distribution", "message"} <= {word for row in ours["top"] for word in row}
