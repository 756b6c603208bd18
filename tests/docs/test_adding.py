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


def test_added_metric_is_known_to_every_estimator():
    from sparsecluster import MiniBatchKMeans, seed_centers
    from sparsecluster.rows import metric

    before = dict(metric.METRICS)
    names = {}
    try:
        for block in blocks("A metric"):
            exec(block, names)
        counts, km = names["counts"], names["km"]
        shares = counts.toarray() / counts.toarray().sum(axis=1, keepdims=True)
        roots = np.sqrt(shares)
        assert km.labels_.tolist()[0] == km.labels_[1] != km.labels_[2] == km.labels_[3]
        gaps = roots[:, None] - km.cluster_centers_.toarray()[None]
        expected = np.sqrt((gaps**2).sum(axis=2) / 2)
        np.testing.assert_allclose(km.transform(counts), expected, atol=1e-12)
        assert MiniBatchKMeans(2, metric="hellinger", random_state=0).fit(counts).n_clusters_ == 2
        assert seed_centers(counts, 2, metric="hellinger", random_state=0)[0].shape == (2, 3)
        with pytest.raises(ValueError, match="negative"):
            names["KMeans"](2, metric="hellinger").fit(-counts)
    finally:
        metric.METRICS.clear()
        metric.METRICS.update(before)


def test_added_estimator_takes_what_others_take_and_is_saved(tmp_path):
    names = {}
    for block in blocks("An estimator"):
        exec(block, names)
    equal, loaded = names["equal"], names["loaded"]
    assert equal.labels_.tolist() == loaded.labels_.tolist() == [0, 0, -1]
    assert loaded.n_clusters_ == 1
    assert loaded.get_params() == equal.get_params()
    path = tmp_path / "rows.svm"
    path.write_text("0 1:1\n0 1:1\n0 2:3\n")
    assert names["EqualRows"](2).fit(path).labels_.tolist() == [0, 0, -1]
    with pytest.raises(ValueError, match="min_samples must be an integer of at least 1"):
        names["EqualRows"](0).fit(path)
