"""What is refused or interrupted changes nothing; callbacks, progress, checkpoints."""

import signal

import numpy as np
import pandas as pd
import pytest
from support.compare import same
from support.data import csr
from support.estimators import (
    N_CLUSTERS,
    OTHER_ROWS,
    ROWS,
    SPARSE,
    every_estimator,
    fitted,
    outcome,
    quietly,
)

from sparsecluster import ReadError

FRAME = pd.DataFrame(OTHER_ROWS).add_prefix("other")


class Stop(Exception):
    pass


def fail(record):
    raise Stop


def press_ctrl_c(record):
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises KeyboardInterrupt, even where the parent of this process ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --- refused -------------------------------------------------------------------------------------


def spoiled(value):
    X = OTHER_ROWS.copy()
    X[3, 4] = value
    return X


REFUSED = {
    "NaN": spoiled(np.nan),
    "infinity": spoiled(np.inf),
    "sparse NaN": csr(spoiled(np.nan), np.float32),
    "no rows": OTHER_ROWS[:0],
    "no columns": OTHER_ROWS[:, :0],
    "one dimension": OTHER_ROWS[0],
    "text": np.full((9, 2), "word"),
    "complex": OTHER_ROWS * 1j,
    "frame": FRAME * np.nan,
}


@every_estimator()
@pytest.mark.parametrize("X", REFUSED.values(), ids=REFUSED)
def test_refused_rows_change_nothing(case, X):
    fresh, estimator = case.make(), case.fitted()
    before = fitted(estimator)
    for one in (fresh, estimator):
        with pytest.raises(ValueError):  # noqa: PT011  (the messages are tested in tests/rows)
            one.fit(X)
    assert vars(fresh).keys() == vars(case.make()).keys()
    assert same(fitted(estimator), before)
    for method in case.uses:
        with pytest.raises(ValueError):  # noqa: PT011
            getattr(estimator, method)(X)
    assert same(fitted(estimator), before)


@every_estimator("partial_fit")
@pytest.mark.parametrize("X", REFUSED.values(), ids=REFUSED)
def test_refused_batch_changes_nothing(case, X):
    estimator, undisturbed = case.make(), case.make()
    for batch in (SPARSE[:3], SPARSE[3:60], SPARSE[60:]):
        with pytest.raises(ValueError):  # noqa: PT011
            estimator.partial_fit(X)
        assert same(fitted(estimator), fitted(undisturbed))
        for one in (estimator, undisturbed):
            quietly(one.partial_fit, batch)
    assert same(fitted(estimator), fitted(undisturbed))


WEIGHTS = {
    "negative": -np.ones(len(OTHER_ROWS)),
    "NaN": np.full(len(OTHER_ROWS), np.nan),
    "too few": np.ones(len(OTHER_ROWS) - 1),
    "zero": np.zeros(len(OTHER_ROWS)),
}


@every_estimator("weights")
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_refused_weights_change_nothing(case, weights):
    estimator = case.fitted()
    before = fitted(estimator)
    with pytest.raises(ValueError, match="weight"):
        estimator.fit(FRAME, sample_weight=weights)
    assert same(fitted(estimator), before)


@every_estimator("centers")
def test_fewer_rows_than_clusters_change_nothing(case):
    estimator = case.fitted()
    before = fitted(estimator)
    with pytest.raises(ValueError, match="n_clusters"):
        estimator.fit(FRAME[: N_CLUSTERS - 1])
    assert same(fitted(estimator), before)


@every_estimator("predict")
def test_missing_file_changes_nothing(case, tmp_path):
    estimator = case.fitted()
    before = fitted(estimator)
    for method in ("fit", *case.uses):
        with pytest.raises(ReadError):
            getattr(estimator, method)(tmp_path / "missing.svm")
    assert same(fitted(estimator), before)


# --- interrupted ---------------------------------------------------------------------------------


INTERRUPTS = pytest.mark.parametrize(
    ("callback", "error"), [(fail, Stop), (press_ctrl_c, KeyboardInterrupt)], ids=["error", "key"]
)


def assert_interrupted_fit_leaves_the_one_before(case, callback, error, X):
    estimator = case.fitted()
    before = outcome(case, estimator, SPARSE)
    with pytest.raises(error):
        estimator.set_params(callback=callback).fit(X)
    estimator.set_params(callback=None)
    assert same(outcome(case, estimator, SPARSE), before)
    assert same(fitted(quietly(estimator.fit, X)), fitted(quietly(case.make().fit, X)))


@every_estimator("callback")
@INTERRUPTS
def test_interrupted_fit_leaves_the_one_before(case, callback, error, ctrl_c):
    assert_interrupted_fit_leaves_the_one_before(case, callback, error, SPARSE[30:])


@every_estimator("callback")
@INTERRUPTS
def test_interrupted_fit_of_other_columns_leaves_the_one_before(case, callback, error, ctrl_c):
    assert_interrupted_fit_leaves_the_one_before(case, callback, error, FRAME)


@every_estimator("callback")
@INTERRUPTS
def test_interrupted_first_fit_leaves_nothing(case, callback, error, ctrl_c):
    estimator = case.make(callback=callback)
    with pytest.raises(error):
        estimator.fit(SPARSE)
    assert not hasattr(estimator, "labels_")
    assert not hasattr(estimator, "cluster_centers_")
    estimator.set_params(callback=None)
    assert same(fitted(quietly(estimator.fit, SPARSE)), fitted(case.fitted()))


@every_estimator("callback", "partial_fit")
def test_stream_goes_on_after_an_interrupted_fit(case):
    estimator, undisturbed = case.make(), case.make()
    for one in (estimator, undisturbed):
        quietly(one.partial_fit, SPARSE[:60])
    with pytest.raises(Stop):
        estimator.set_params(callback=fail).fit(SPARSE[30:])
    for one in (estimator.set_params(callback=None), undisturbed):
        quietly(one.partial_fit, SPARSE[60:])
    assert same(fitted(estimator), fitted(undisturbed))


# --- callbacks, progress -------------------------------------------------------------------------


@every_estimator("callback")
def test_callback_gets_every_record(case):
    seen = []
    estimator = quietly(case.make(callback=seen.append).fit, SPARSE)
    kept = {record.run for record in estimator.history_}
    assert [record for record in seen if record.run in kept] == estimator.history_
    assert estimator.n_iter_ == len(estimator.history_) > 1


@every_estimator("callback")
def test_true_answer_of_a_callback_ends_the_fit(case):
    estimator = quietly(case.make(callback=lambda record: True).fit, SPARSE)
    assert estimator.n_iter_ == 1
    assert not case.offers("centers") or same(estimator.labels_, estimator.predict(SPARSE))


@every_estimator("callback")
@pytest.mark.parametrize("X", [ROWS, SPARSE], ids=["dense", "sparse"])
def test_record_shows_centers_and_labels_while_the_callback_runs(case, X):
    shown = []
    estimator = quietly(
        case.make(callback=lambda record: shown.append((record.centers(), record.labels()))).fit, X
    )
    for centers, labels in shown:
        assert type(centers) is type(estimator.cluster_centers_)
        assert centers.shape == estimator.cluster_centers_.shape
        assert labels.shape == (X.shape[0],)
        assert set(np.unique(labels)) <= set(range(-1, N_CLUSTERS))
    for name in ("centers", "labels"):
        with pytest.raises(RuntimeError, match="only while the callback runs"):
            getattr(estimator.history_[-1], name)()


@every_estimator("callback")
def test_fit_says_how_it_ended_and_where_its_time_went(case):
    estimator = case.fitted()
    assert isinstance(estimator.converged_, bool)
    phases = [name for name in estimator.seconds_ if name != "embedding"]
    assert phases == ["seeding", "assignment", "update", "other", "total"]
    embedding = getattr(estimator, "embedding", None)
    assert ("embedding" in estimator.seconds_) == (embedding is not None)
    assert min(estimator.seconds_.values()) >= 0


@every_estimator()
def test_nothing_is_written_by_default(case, capfd):
    quietly(case.make().fit, SPARSE)
    assert capfd.readouterr() == ("", "")


@every_estimator("callback")
def test_verbose_writes_a_line_for_each_iteration_to_standard_output(case, capfd):
    seen = []
    quietly(case.make(verbose=1, callback=seen.append).fit, SPARSE)
    out, err = capfd.readouterr()
    assert err == ""
    assert sum(line.startswith("Iteration ") for line in out.splitlines()) == len(seen)


# --- checkpoints ---------------------------------------------------------------------------------


@every_estimator("checkpoint")
@pytest.mark.parametrize("iteration", [1, 2, 4])
def test_checkpoint_of_an_interrupted_fit_is_gone_on_from(case, iteration, tmp_path):
    def stop(record):
        if record.iteration == iteration:
            raise Stop

    options = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    with pytest.raises(Stop):
        case.make(callback=stop, **options).fit(SPARSE)
    resumed = quietly(case.make(**options).fit, SPARSE)
    assert same(fitted(resumed), fitted(case.fitted()))


@every_estimator("checkpoint")
def test_checkpoint_of_another_fit_is_refused_and_changes_nothing(case, tmp_path):
    options = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0}
    estimator = quietly(case.make(**options).fit, SPARSE)
    before = fitted(estimator)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    with pytest.raises(ValueError, match="another fit"):
        estimator.fit(csr(ROWS[::-1], np.float32))
    assert same(fitted(estimator), before)
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == kept
