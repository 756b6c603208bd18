"""A loop that goes on with other centers: it ends as one that knows nothing of the run before."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.compare import same
from support.data import csr

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Loop, Task
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.rows import as_rows


def made_rows(tiny):
    rng = np.random.default_rng(0)
    X = rng.random((300, 40)) * (rng.random((300, 40)) < 0.2)
    X[:, 0] += 0.1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[::7, 3] = tiny
    return X


def task_of(X, metric, algorithm, weights):
    rows = as_rows(csr(X), n_threads=2)
    setting = SeedSetting(
        random_state=np.random.RandomState(0), weights=weights, memory_limit=1 << 30, n_threads=2,
        metric=metric_of(metric),
    )  # fmt: skip
    columns = _core.column_stats(rows.core, weights)
    return Task(rows=rows, setting=setting, columns=columns, algorithm=algorithm)


def steps(loop, n):
    """What some iterations leave behind, but for what they skipped."""
    records = [loop.step() for _ in range(n)]
    told = [(one.iteration, one.cost, one.shift) for one in records]
    return [told, loop.settled, loop.labels.copy(), centers_.from_core(loop.centers)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("algorithm", _core.ALGORITHMS)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("fixed_point", [True, False])
def test_a_restarted_loop_ends_as_a_new_one(metric, algorithm, weighted, fixed_point):
    X = made_rows(0.0 if fixed_point else 1e-45)
    weights = np.arange(len(X)) % 3 / 2.0 if weighted else None
    task = task_of(X, metric, algorithm, weights)
    if not fixed_point:
        with pytest.raises(ValueError, match="do not fit fixed point"):
            _core.RowSums(task.rows.core, task.columns, weights, 6, metric)
    start = sp.csr_array(X[:6])
    kept = Loop(task, RunState(centers=start, history=[]))
    for turn in range(4):
        steps(kept, 2)
        before, labels = centers_.from_core(kept.centers), kept.labels
        was = labels.copy()
        places = np.array([turn, kept.centers.n_clusters])
        others = sp.csr_array(X[[50 + turn, 90 + turn]])
        centers = kept.centers.replaced(places, centers_.to_core(others))
        kept.restart(centers, places)
        new = Loop(task, RunState(centers=centers_.from_core(centers), history=[]))
        assert same(steps(kept, 3), steps(new, 3))
        assert np.array_equal(labels, was)
        assert before.shape[0] + 1 == centers.n_clusters


def test_centers_that_rows_stay_with_settle_after_a_second_iteration():
    X = np.repeat(np.eye(3), 5, axis=0)
    start = RunState(centers=sp.csr_array(np.eye(3)), history=[])
    loop = Loop(task_of(X, "euclidean", "auto", None), start)
    steps(loop, 2)
    assert loop.settled
    loop.restart(loop.centers.copy(), [])
    assert [loop.step().iteration, loop.settled] == [1, False]
    assert [loop.step().iteration, loop.settled] == [2, True]


def test_centers_are_replaced_in_their_places_and_at_the_end():
    centers = centers_.to_core(np.eye(4)[:3])
    others = centers_.to_core(np.array([[0, 0, 0, 2.0], [3.0, 0, 0, 0]]))
    found = centers_.from_core(centers.replaced(np.array([1, 3]), others)).toarray()
    assert np.array_equal(found, [[1, 0, 0, 0], [0, 0, 0, 2], [0, 0, 1, 0], [3, 0, 0, 0]])
    with pytest.raises(ValueError, match="there is no such center"):
        centers.replaced(np.array([1, 4]), others)


def test_the_number_of_centers_changes_only_where_that_was_said():
    rows = as_rows(csr(np.eye(5)), n_threads=1)
    assigner = _core.Assigner(rows.core, "auto", 1, 1 << 20, "euclidean")
    labels = np.full(5, -1, dtype=np.int32)
    assigner.assign(centers_.to_core(np.eye(5)[:2]), np.zeros(0), labels)
    with pytest.raises(ValueError, match="the number of centers changed"):
        assigner.assign(centers_.to_core(np.eye(5)[:3]), np.zeros(3), labels)
    assert assigner.grow()
    assigner.assign(centers_.to_core(np.eye(5)[:3]), np.array([0, 0, np.inf]), labels)
    assert labels.tolist() == [0, 1, 2, 0, 0]
