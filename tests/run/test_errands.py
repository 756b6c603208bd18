"""What is asked of workers directly: who passes it on, what comes back, and who is lost."""

from concurrent.futures import Future
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from support.machines import assert_nothing_left, assert_same_fit, sparse_rows

from sparsecluster import KMeans
from sparsecluster.run import dask as run_dask
from sparsecluster.run import dask_session
from sparsecluster.run.dask import DaskExecutor
from sparsecluster.run.dask_session import DaskSession, WorkerTraceback, _errands, out_of_reach
from sparsecluster.run.line import Broken
from sparsecluster.run.worker import ONE_PIECE, _Held, _packed, _unpacked, serve

pytest.importorskip("distributed")
X = sparse_rows()


def levels(errands):
    """Workers that are asked by one process, on each level of the tree."""
    yield len(errands)
    for errand in errands.values():
        if errand.others:
            yield from levels(errand.others)


def workers(errands):
    for address, errand in errands.items():
        yield address, errand.requests
        yield from workers(errand.others)


@pytest.mark.parametrize("n_workers", [1, 8, 9, 100])
def test_errands_reach_every_worker_once_and_nobody_asks_more_than_eight(n_workers):
    requests = {f"tcp://10.0.0.{number}:1": [number] for number in range(n_workers)}
    errands = _errands(requests, 8)
    assert dict(workers(errands)) == requests
    assert len(list(workers(errands))) == n_workers
    assert max(levels(errands)) <= 8


@pytest.fixture
def session(client):
    class Part:  # by value: workers do not have this file
        def __init__(self, spec, n_threads):
            self._begin = spec["begin"]

        def restore(self, recipe):
            """There is nothing to restore."""

        def refuse(self):
            if self._begin == 10:
                raise ValueError("row 10 is wrong")

        def refuse_in_its_own_way(self):
            class Unknown(Exception):
                """What cannot travel."""

                def __reduce__(self):
                    raise TypeError("stays here")

            raise Unknown("said by the worker")

    specs = [{"begin": 10 * part, "end": 10 * part + 10} for part in range(3)]
    session = DaskSession(client, Part, specs)
    yield session
    session.close()


def test_error_of_a_part_is_raised_with_its_place_on_the_worker(session):
    with pytest.raises(ValueError, match="row 10 is wrong") as raised:
        session.turn("refuse")
    assert isinstance(raised.value.__cause__, WorkerTraceback)
    assert "in refuse" in str(raised.value.__cause__)


def test_error_that_cannot_travel_is_told(session):
    with pytest.raises(RuntimeError, match="Unknown: said by the worker"):
        session.turn("refuse_in_its_own_way")


@pytest.fixture
def no_lines(monkeypatch):
    """Doors cannot be reached: all messages go by Dask."""
    monkeypatch.setattr(dask_session, "open_line", lambda door: None)


@pytest.mark.usefixtures("no_lines")
def test_worker_that_is_out_of_reach_for_a_moment_changes_nothing(client, store):
    """It does not answer errands any more, though its scheduler hears of it."""

    def deaf(dask_worker):
        dask_worker.handlers.pop("sparsecluster_errand")

    rebuilt = []

    def silence(record):
        rebuilt.append(record.machines.rebuilt)
        if record.iteration == 2:
            client.run(deaf, workers=[min(client.run(int))])

    remote = KMeans(20, init=X[:20], executor=client, callback=silence).fit(store)
    assert_same_fit(KMeans(20, init=X[:20]).fit(store), remote)
    assert rebuilt[-1] == 1
    client.run(serve)
    assert_nothing_left(client)


class BreakingLine:
    """A line that breaks as soon as it is used."""

    def __init__(self, door):
        """The door does not matter."""

    def ask(self, value):
        broken = Future()
        broken.set_exception(Broken("at once"))
        return broken

    def close(self):
        """There is nothing to close."""


def test_lines_that_break_cost_no_worker(client, store, monkeypatch):
    monkeypatch.setattr(dask_session, "open_line", BreakingLine)
    rebuilt = []
    found = KMeans(
        20, init=X[:20], executor=client, callback=lambda one: rebuilt.append(one.machines.rebuilt)
    ).fit(store)
    assert set(rebuilt) == {0}
    assert_same_fit(KMeans(20, init=X[:20]).fit(store), found)


def test_workers_without_lines_are_asked_for_one_once(client, store, monkeypatch):
    asked = []
    monkeypatch.setattr(dask_session, "_lineless", WeakKeyDictionary())
    monkeypatch.setattr(dask_session, "open_line", asked.append)
    for _ in range(2):
        KMeans(20, init=X[:20], executor=client).fit(store)
    assert len(asked) == len(client.run(int))


def test_calls_that_come_late_disturb_nobody():
    held = _Held()
    early, late = SimpleNamespace(turn=1), SimpleNamespace(turn=5)
    assert held.comes(late)
    held.waiting = Future()
    assert not held.comes(early)
    assert not held.waiting.cancelled()
    assert held.comes(SimpleNamespace(turn=5))  # asked once more
    assert held.waiting.cancelled()


def test_workers_that_only_the_scheduler_reaches_are_named(client, monkeypatch):
    monkeypatch.setattr(run_dask, "out_of_reach", lambda client, workers: sorted(workers)[:1])
    with pytest.raises(ValueError, match="answers its scheduler, but not this process"):
        DaskExecutor(client)


def test_reach_is_tried(client, monkeypatch):
    there = set(client.run(int))
    assert out_of_reach(client, there) == []
    nobody = "tcp://127.0.0.1:1"
    monkeypatch.setattr(dask_session, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(dask_session, "living", lambda client: {*there, nobody})
    assert out_of_reach(client, {*there, nobody}) == [nobody]


def test_function_that_a_worker_cannot_load_is_named(client, tmp_path, monkeypatch):
    import dask
    import dask.array as da

    (tmp_path / "known_here_alone.py").write_text(
        "import numpy as np\n\n"
        "def rows(seed):\n    return np.random.default_rng(seed).random((50, 4))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import known_here_alone

    blocks = [dask.delayed(known_here_alone.rows)(seed) for seed in range(3)]
    array = da.concatenate([da.from_delayed(block, (50, 4), dtype=np.float64) for block in blocks])
    for given in (blocks, array):
        with pytest.raises(ValueError, match=r"cannot load a function .* 'known_here_alone'"):
            KMeans(3, init="random", executor=client).fit(given)
    assert len(client.run(int)) == 3


@pytest.mark.parametrize("size", [10, 1 << 21])
def test_small_and_large_messages_arrive_as_they_were_sent(client, size):
    class Part:  # by value: workers do not have this file
        def __init__(self, spec, n_threads):
            """There is nothing to hold."""

        def restore(self, recipe):
            """There is nothing to restore."""

        def doubled(self, array, nothing):
            return {"array": 2 * array, "nothing": nothing, "own": self.__class__.__name__}

    session = DaskSession(client, Part, [{"begin": 0, "end": 1}] * 2)
    array, nothing = np.arange(size, dtype=np.int64), np.zeros((0, 3))
    try:
        for found in session.ask("doubled", {"array": array, "nothing": nothing}):
            np.testing.assert_array_equal(found["array"], 2 * array)
            assert found["nothing"].shape == (0, 3)
            assert found["own"] == "Part"
    finally:
        session.close()


def test_messages_are_in_one_piece_where_they_are_small():
    small, large = np.zeros(10), np.zeros(ONE_PIECE)
    assert all(isinstance(piece, bytes) for piece in _packed({"small": small}))
    assert not isinstance(_packed({"small": small, "large": large}), list)
    np.testing.assert_array_equal(_unpacked(_packed({"small": small}))["small"], small)
