"""A chain of clusterings: what it keeps from one to the next is what it would compute."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.data import csr

from sparsecluster import _core
from sparsecluster.evaluation.chain import Chain, changed_centers
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.rows import as_rows


def made_chain(metric):
    rng = np.random.default_rng(3)
    X = rng.random((400, 50)) * (rng.random((400, 50)) < 0.15)
    X[:, 0] += 0.1
    rows = as_rows(csr(X / np.linalg.norm(X, axis=1, keepdims=True)), n_threads=2)
    setting = SeedSetting(
        random_state=np.random.RandomState(0), weights=None, memory_limit=1 << 30, n_threads=2,
        metric=metric_of(metric),
    )  # fmt: skip
    task = Task(rows=rows, setting=setting, columns=_core.column_stats(rows.core, None))
    return Chain(task, 5)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_chain_that_forgets_its_runs_gives_the_same_links(metric):
    kept, link = made_chain(metric), None
    for k in range(2, 14):
        before, link = link, kept.first(2, 2) if link is None else kept.next(link, k)
        anew = made_chain(metric)
        other = anew.first(2, 2) if before is None else anew.next(before, k)
        assert np.array_equal(link.labels, other.labels)
        assert (link.k, link.cost, link.iterations) == (other.k, other.cost, other.iterations)
        assert not changed_centers(link.centers, other.centers).any()
        assert np.array_equal(kept.distances(link), made_chain(metric).distances(link))
        price = kept._cheapest_merge(link)
        assert price == made_chain(metric)._cheapest_merge(link)


def test_centers_that_changed_or_are_new_are_told():
    before = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [0, 0, 4]]))
    after = sp.csr_array(np.array([[1.0, 0, 2], [0, 5, 0], [0, 4, 0], [1, 1, 1]]))
    assert changed_centers(before, after).tolist() == [False, True, True, True]
    assert not changed_centers(before, before[:2]).any()
