"""The recipes in docs/adding.md, followed word by word."""

import re
from pathlib import Path

import numpy as np
import pytest

from sparsecluster.kmeans import seeding
from sparsecluster.kmeans.seeding import registry

PAGE = (Path(__file__).parents[2] / "docs" / "adding.md").read_text()


def blocks(heading):
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def evenly(tmp_path, monkeypatch):
    """What the example leaves behind, with the file and the line in place."""
    file, line, example = blocks("A way to start")
    (tmp_path / "evenly.py").write_text(file)
    monkeypatch.setattr(seeding, "__path__", [*seeding.__path__, str(tmp_path)])
    for name, method in eval(f"{{{line}}}", vars(registry)).items():
        monkeypatch.setitem(registry.METHODS, name, method)
    names = {}
    exec(example, names)
    return names


def test_added_way_to_start_chooses_its_rows(evenly):
    first = evenly["indices"][0]
    assert evenly["indices"].tolist() == [(first + 2 * i) % 10 for i in range(3)]
    np.testing.assert_array_equal(evenly["centers"], evenly["X"][evenly["indices"]])
    assert evenly["km"].n_clusters_ == 3


def test_options_of_an_added_way_to_start_are_checked(evenly):
    with pytest.raises(ValueError, match="step must be an integer of at least 1"):
        evenly["seed_centers"](evenly["X"], 3, "evenly", step=0)
    with pytest.raises(ValueError, match=r"'stride' is not an option .* takes step"):
        evenly["seed_centers"](evenly["X"], 3, "evenly", stride=2)
