"""The code of docs/evaluation.md, run from top to bottom."""

import re
from pathlib import Path

import numpy as np

import sparsecluster

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()


def test_the_page_runs():
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), names)
    assert names["choice"].k == 4
    assert names["found"].agreement.accuracy > 0.95
    assert names["back"] > 0.9
    assert names["km"].n_clusters_ == 5 - len(names["pairs"])
    assert np.array_equal(names["km"].labels_, names["km"].predict(names["X"]))


def test_cosines_are_recommended_for_text():
    assert '**For text, pass `metric="cosine"`**' in PAGE
    assert 'Use "cosine" for text' in sparsecluster.choose_k.__doc__


def test_every_measure_of_the_table_is_there():
    table = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert len(named) == 11
    assert named <= set(sparsecluster.__all__)
