"""Saved, pickled or copied, an estimator is what it was, and goes on as it would have."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from support.compare import same
from support.data import LAYOUTS
from support.estimators import ROWS, SPARSE, every_estimator, fitted, outcome, parameters, quietly

from sparsecluster import load_model

DENSE = np.array(ROWS)
DATA = {
    f"{layout}-{dtype}": LAYOUTS[layout](ROWS, dtype)
    for layout in LAYOUTS
    for dtype in ("float32", "float64")
}
COPIES = {
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),
    "deepcopy": copy.deepcopy,
}
BATCHES = (slice(0, 3), slice(3, 50), slice(50, 51), slice(51, len(ROWS)))


def assert_alike(case, one, other, X):
    assert type(other) is type(one)
    assert parameters(other) == parameters(one)
    assert same(fitted(other), fitted(one))
    for name in ("history_", "seconds_"):
        assert getattr(other, name, None) == getattr(one, name, None)
    assert same(outcome(case, other, X), outcome(case, one, X))


@every_estimator()
@pytest.mark.parametrize("X", DATA.values(), ids=DATA)
def test_copy_of_a_fit_is_what_it_was(case, X):
    estimator = quietly(case.make().fit, X)
    for copied in COPIES.values():
        assert_alike(case, estimator, copied(estimator), X)


@every_estimator()
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copy_before_a_fit_fits_the_same(case, copied):
    other = copied(case.make())
    assert same(fitted(quietly(other.fit, SPARSE)), fitted(case.fitted()))


@every_estimator("save")
@pytest.mark.parametrize("X", DATA.values(), ids=DATA)
def test_file_of_a_fit_is_what_it_was(case, X, tmp_path):
    estimator = case.make()
    names = {"feature_names": [f"term {i}" for i in range(ROWS.shape[1])]}
    takes_names = "feature_names" in inspect.signature(estimator.fit).parameters
    quietly(estimator.fit, X, **(names if takes_names else {}))
    estimator.save(tmp_path / "model")
    for mmap in (True, False):
        assert_alike(case, estimator, load_model(tmp_path / "model", mmap=mmap), X)


@every_estimator("save")
def test_file_of_a_file_and_its_copies_are_what_it_was(case, tmp_path):
    estimator = case.fitted()
    estimator.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    loaded.save(tmp_path / "model")
    assert_alike(case, estimator, load_model(tmp_path / "model"), SPARSE)
    for copied in COPIES.values():
        assert_alike(case, estimator, copied(loaded), SPARSE)


def reloaded(tmp_path):
    """Copy by way of a file."""

    def copied(estimator):
        estimator.save(tmp_path / "model")
        return load_model(tmp_path / "model")

    return copied


def assert_goes_on(case, make, copied):
    """A copy after any batch learns from the others what the original does."""
    for stop in range(1, len(BATCHES)):
        estimator = case.make()
        for batch in BATCHES[:stop]:
            quietly(estimator.partial_fit, make(batch))
        other = copied(estimator)
        for batch in BATCHES[stop:]:
            for one in (estimator, other):
                quietly(one.partial_fit, make(batch))
            assert same(fitted(other), fitted(estimator))


@every_estimator("partial_fit")
@pytest.mark.parametrize("X", [SPARSE, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copy_in_the_middle_of_a_stream_goes_on(case, X, copied):
    assert_goes_on(case, X.__getitem__, copied)


@every_estimator("partial_fit", "save")
@pytest.mark.parametrize("X", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_file_in_the_middle_of_a_stream_goes_on(case, X, tmp_path):
    assert_goes_on(case, X.__getitem__, reloaded(tmp_path))


@every_estimator("partial_fit")
def test_copy_of_a_stream_does_not_learn_from_it(case):
    estimator = case.make()
    quietly(estimator.partial_fit, SPARSE[:60])
    other = copy.deepcopy(estimator)
    before = fitted(other)
    quietly(estimator.partial_fit, SPARSE[60:])
    assert same(fitted(other), before)
