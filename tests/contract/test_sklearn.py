"""What scikit-learn expects of an estimator: its own checks, parameters, copies, names."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.compare import same
from support.data import csr
from support.estimators import (
    ESTIMATORS,
    OTHER_ROWS,
    ROWS,
    SPARSE,
    every_estimator,
    fitted,
    parameters,
    quietly,
)

import sparsecluster


def checks(chosen):
    """Parametrize by the checks of scikit-learn, for some of the parameters of each entry."""
    checked = [
        (entry.kind(**options), entry.expected_failed)
        for entry in ESTIMATORS
        for options in entry.checked[chosen]
    ]
    failed = {repr(estimator): reasons for estimator, reasons in checked}
    return parametrize_with_checks(
        [estimator for estimator, _ in checked],
        expected_failed_checks=lambda estimator: failed.get(repr(estimator), {}),
    )


@checks(slice(1))
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks(slice(1, None))
def test_scikit_learn_accepts_the_estimator_with_other_parameters(estimator, check):
    check(estimator)


def test_every_public_estimator_is_in_the_table():
    public = [getattr(sparsecluster, name) for name in sparsecluster.__all__]
    estimators = {one for one in public if inspect.isclass(one) and issubclass(one, BaseEstimator)}
    assert estimators == {entry.kind for entry in ESTIMATORS}


# --- parameters ----------------------------------------------------------------------------------


@every_estimator()
def test_options_are_keyword_only(case):
    parameters = inspect.signature(case.entry.kind).parameters.values()
    positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    assert positional in ([], ["n_clusters"], ["n_components"], ["eps"], ["min_cluster_size"])


@every_estimator()
def test_clone_has_the_parameters_and_nothing_fitted(case):
    estimator = case.fitted()
    copy = clone(estimator)
    assert parameters(copy) == parameters(estimator)
    assert not [name for name in vars(copy) if name not in copy.get_params()]


@every_estimator()
def test_clone_fits_the_same(case):
    estimator = case.fitted()
    assert same(fitted(quietly(clone(estimator).fit, SPARSE)), fitted(estimator))


@every_estimator()
def test_parameters_that_are_set_count_like_those_given(case):
    given = case.make()
    estimator = case.entry.kind().set_params(**given.get_params())
    assert parameters(estimator) == parameters(given)
    assert same(fitted(quietly(estimator.fit, SPARSE)), fitted(case.fitted()))


@every_estimator()
@pytest.mark.parametrize("X", [SPARSE, ROWS], ids=["sparse", "dense"])
def test_fit_returns_the_estimator_and_leaves_rows_and_parameters_alone(case, X):
    estimator = case.make()
    before, parameters = X.copy(), estimator.get_params()
    assert quietly(estimator.fit, X) is estimator
    assert same(X, before)
    assert all(value is parameters[name] for name, value in estimator.get_params().items())


@every_estimator()
def test_refit_forgets_the_first_rows(case):
    estimator = quietly(case.make().fit, pd.DataFrame(OTHER_ROWS).add_prefix("column"))
    quietly(estimator.fit, SPARSE)
    assert same(fitted(estimator), fitted(case.fitted()))


# --- methods -------------------------------------------------------------------------------------


@every_estimator()
def test_unfitted_estimator_says_so(case, tmp_path):
    arguments = {"top_terms": (), "save": (tmp_path / "model",)}
    for method in ("predict", "transform", "score", "top_terms", "save"):
        if hasattr(case.make(), method):
            with pytest.raises(NotFittedError):
                getattr(case.make(), method)(*arguments.get(method, (SPARSE,)))
    assert not list(tmp_path.iterdir())


@every_estimator("predict")
def test_fit_predict_is_fit_then_labels(case):
    assert same(quietly(case.make().fit_predict, SPARSE), case.fitted().labels_)


@every_estimator("transform")
def test_fit_transform_is_fit_then_transform(case):
    assert same(quietly(case.make().fit_transform, SPARSE), case.fitted().transform(SPARSE))


@every_estimator("centers")
@pytest.mark.parametrize("X", [SPARSE, ROWS], ids=["sparse", "dense"])
def test_labels_are_those_that_predict_gives(case, X):
    estimator = quietly(case.make().fit, X)
    assert same(estimator.labels_, estimator.predict(X))
    assert estimator.labels_.dtype == np.int32
    assert isinstance(estimator.cluster_centers_, type(X))


@every_estimator("centers", "weights")
def test_score_is_minus_the_inertia(case):
    weights = 1.0 + np.arange(len(ROWS)) % 3
    estimator = quietly(case.make().fit, SPARSE, sample_weight=weights)
    score = estimator.score(SPARSE, sample_weight=weights)
    assert score == pytest.approx(-estimator.inertia_, rel=1e-9)


@every_estimator("predict", "cosine")
def test_lengths_of_rows_do_not_matter(case):
    scales = np.exp2(np.arange(len(ROWS)) % 9 - 4)[:, None]
    scaled = csr(ROWS * scales, np.float32)
    estimator, other = case.fitted(), quietly(case.make().fit, scaled)
    assert same(estimator.labels_, other.labels_)
    assert same(estimator.predict(scaled), estimator.predict(SPARSE))


# --- names ---------------------------------------------------------------------------------------

NAMES = [f"term {i}" for i in range(ROWS.shape[1])]
FRAME = pd.DataFrame(ROWS, columns=NAMES)


@every_estimator()
def test_data_frame_leaves_its_column_names(case):
    assert quietly(case.make().fit, FRAME).feature_names_in_.tolist() == NAMES


@every_estimator()
def test_other_column_names_are_refused_and_change_nothing(case):
    estimator = quietly(case.make().fit, FRAME)
    before = fitted(estimator)
    for other in (FRAME[NAMES[::-1]], FRAME.rename(columns={NAMES[3]: "term"})):
        for method in case.uses:
            with pytest.raises(ValueError, match="feature names"):
                getattr(estimator, method)(other)
    assert same(fitted(estimator), before)


@every_estimator("transform")
def test_names_of_transformed_columns_are_as_many_as_the_columns(case):
    estimator = quietly(case.make().fit, FRAME)
    names = estimator.get_feature_names_out()
    frame = quietly(case.make().set_output(transform="pandas").fit_transform, FRAME)
    assert frame.columns.tolist() == names.tolist()
    assert estimator.transform(FRAME).shape == frame.shape


@every_estimator("names")
def test_names_given_to_fit_are_those_of_the_top_terms(case):
    estimator = quietly(case.make().fit, SPARSE, feature_names=NAMES)
    assert list(estimator.feature_names_) == NAMES
    assert {term for terms in estimator.top_terms(3) for term in terms} <= set(NAMES)
    expected = named(case.fitted().top_terms(3))
    assert estimator.top_terms(3) == expected


def named(terms):
    """Terms x0, x1, ... by their names."""
    return [[NAMES[int(term[1:])] for term in of_center] for of_center in terms]


@every_estimator("names")
def test_wrong_number_of_names_is_refused_and_changes_nothing(case):
    estimator = case.fitted()
    before = fitted(estimator)
    with pytest.raises(ValueError, match="one name for each"):
        estimator.fit(csr(OTHER_ROWS), feature_names=NAMES)
    assert same(fitted(estimator), before)
