"""The code of docs/notebooks.md, run from top to bottom."""

import logging
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "notebooks.md").read_text()


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the page leaves behind, and the folder that it was run in."""
    logger = logging.getLogger("sparsecluster")
    folder, found, level = tmp_path_factory.mktemp("notebook"), {}, logger.level
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.chdir(folder)
        exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), found)
    logger.setLevel(level)
    return found | {"folder": folder}


def test_the_page_runs_and_warns_of_nothing(names):
    assert names["km"].n_clusters_ == 3


def test_frames_are_the_steps_of_lloyd(names):
    X, centers = names["X"], names["start"]
    for labels, after, cost in names["frames"]:
        distances = ((X[:, None] - centers) ** 2).sum(axis=2)
        np.testing.assert_array_equal(labels, distances.argmin(axis=1))
        centers = np.array([X[labels == cluster].mean(axis=0) for cluster in range(3)])
        np.testing.assert_allclose(after, centers)
        assert cost == pytest.approx(((X - centers[labels]) ** 2).sum())


def test_the_report_of_the_page_is_a_file_and_something_to_show(names):
    assert "Three groups" in (names["folder"] / "groups.html").read_text()
    assert names["page"]._repr_html_().startswith("<iframe srcdoc=")
