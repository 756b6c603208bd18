"""Prepare: what scikit-learn's transformers give, whatever the blocks; states that files keep."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from support.data import LAYOUTS, counts, csr, dense, directions, gaps, signed, text

from sparsecluster import KMeans, Prepare
from sparsecluster.prepare import pieces as module

ALL = {"min_df": 2, "max_df": 0.6, "log": True, "tfidf": True, "norm": "l2"}


@pytest.fixture
def X():
    return counts(np.random.default_rng(0))


# --- the steps, against others -------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_idf_is_that_of_scikit_learn(X, layout):
    prepared = Prepare(tfidf=True).fit_transform(LAYOUTS[layout](X, np.float64))
    expected = TfidfTransformer(norm=None).fit_transform(csr(X))
    np.testing.assert_array_equal(dense(prepared), expected.toarray())


def test_tfidf_of_unit_rows_is_that_of_scikit_learn(X):
    prepared = Prepare(tfidf=True, norm="l2").fit_transform(csr(X))
    expected = TfidfTransformer(norm="l2").fit_transform(csr(X))
    np.testing.assert_allclose(prepared.toarray(), expected.toarray(), rtol=1e-15)


@pytest.mark.parametrize("kind", [text, signed, gaps])
def test_unit_rows_are_those_of_scikit_learn(kind):
    X = kind(np.random.default_rng(1))
    prepared = Prepare(norm="l2").fit_transform(csr(X))
    np.testing.assert_allclose(prepared.toarray(), Normalizer().transform(X), rtol=1e-15)


def test_columns_are_those_of_count_vectorizer():
    rng = np.random.default_rng(2)
    texts = [" ".join(f"w{word:02}" for word in rng.zipf(1.5, 8) if word < 100) for _ in range(64)]
    every = CountVectorizer().fit(texts)
    some = CountVectorizer(min_df=3, max_df=0.25).fit(texts)
    prepare = Prepare(min_df=3, max_df=0.25).fit(every.transform(texts))
    names = prepare.get_feature_names_out(every.get_feature_names_out())
    assert names.tolist() == some.get_feature_names_out().tolist()
    assert 0 < len(names) < len(every.vocabulary_)


def test_a_share_that_is_met_exactly_is_not_exceeded():
    # In floats 0.29 * 100 is less than 29.
    X = np.ones((100, 2))
    X[29:, 0] = 0
    assert Prepare(max_df=0.29).fit(X).columns_.tolist() == [0]


def test_logarithms_are_of_one_more(X):
    prepared = Prepare(log=True).fit_transform(csr(X))
    np.testing.assert_allclose(prepared.toarray(), np.log(1 + X), rtol=1e-15)


def test_steps_come_in_the_order_drop_log_idf_unit(X):
    n_rows, occurs = len(X), (X != 0).sum(axis=0)
    kept = (occurs >= 2) & (occurs <= 0.6 * n_rows)
    expected = np.log1p(X[:, kept]) * (np.log((1 + n_rows) / (1 + occurs[kept])) + 1)
    prepare = Prepare(**ALL)
    np.testing.assert_allclose(
        prepare.fit_transform(csr(X)).toarray(), directions(expected), rtol=1e-14
    )
    assert prepare.columns_.tolist() == np.flatnonzero(kept).tolist()
    assert prepare.idf_.shape == prepare.columns_.shape
    assert prepare.n_rows_ == n_rows


def test_dropping_empty_columns_is_a_minimum_of_one_row():
    X = csr(gaps(np.random.default_rng(3)))
    dropped = Prepare(drop_empty=True).fit(X)
    assert dropped.columns_.tolist() == Prepare(min_df=1).fit(X).columns_.tolist()
    assert set(range(150)) - set(dropped.columns_.tolist()) >= {0, 40, 41, 149}


def test_stored_zeros_do_not_count():
    X = sp.csr_array((np.array([1.0, 0.0, 2.0]), [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert Prepare().fit(X).row_counts_.tolist() == [2, 0]


def test_duplicate_entries_are_one_occurrence_with_their_sum():
    X = sp.csr_array((np.array([1.0, 2.0]), [1, 1], [0, 2]), shape=(1, 2))
    prepare = Prepare(log=True)
    np.testing.assert_allclose(prepare.fit_transform(X).toarray(), [[0, np.log(4)]])
    assert prepare.row_counts_.tolist() == [0, 1]


def test_rows_whose_squares_underflow_get_unit_length():
    prepared = Prepare(norm="l2").fit_transform(csr([[3e-200, 4e-200], [0, 0]]))
    np.testing.assert_allclose(prepared.toarray(), [[0.6, 0.8], [0, 0]])


# --- blocks --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    arrays(
        np.float64, st.tuples(st.integers(2, 20), st.just(7)), elements=st.sampled_from([0, 1, 5.5])
    ),
    st.lists(st.integers(0, 20), max_size=4),
    st.sampled_from(["float32", "float64"]),
)
def test_results_do_not_depend_on_the_blocks(X, cuts, dtype):
    X = np.hstack([X, np.arange(len(X))[:, None] % 2])  # one column that is never dropped
    options = {**ALL, "min_df": 1}
    whole = Prepare(**options).fit(csr(X, dtype))
    bounds = [0, *sorted(min(cut, len(X)) for cut in cuts), len(X)]
    blocks = [csr(X[i:j], dtype) for i, j in pairwise(bounds) if i < j]
    parts = Prepare(**options)
    for block in blocks:
        parts.partial_fit(block)
    joined = sp.vstack([parts.transform(block) for block in blocks])
    np.testing.assert_array_equal(joined.toarray(), whole.transform(csr(X, dtype)).toarray())
    assert parts.row_counts_.tolist() == whole.row_counts_.tolist()


def test_long_rows_do_not_depend_on_the_pieces_they_are_computed_in(monkeypatch):
    X = csr(np.random.default_rng(4).lognormal(size=(40, 3000)))
    whole = Prepare(log=True, tfidf=True, norm="l2").fit_transform(X)
    monkeypatch.setattr(module, "PIECE", 7001)
    pieces = Prepare(log=True, tfidf=True, norm="l2").fit_transform(X)
    np.testing.assert_array_equal(whole.data, pieces.data)


def test_columns_that_come_later_were_zero_before(X):
    grown = Prepare(tfidf=True).partial_fit(csr(X[:200, :100])).partial_fit(csr(X[200:]))
    padded = X.copy()
    padded[:200, 100:] = 0
    whole = Prepare(tfidf=True).fit(csr(padded))
    np.testing.assert_array_equal(grown.idf_, whole.idf_)
    assert grown.n_features_in_ == X.shape[1]


def test_growing_data_frames_keep_the_names_of_their_first_columns():
    prepare = Prepare().partial_fit(pd.DataFrame([[1.0]], columns=["a"]))
    prepare.partial_fit(pd.DataFrame([[1.0, 2.0]], columns=["a", "b"]))
    assert prepare.get_feature_names_out().tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="start with the same names"):
        prepare.partial_fit(pd.DataFrame([[1.0, 2.0, 3.0]], columns=["b", "a", "c"]))


def test_arrays_of_a_block_give_what_matrices_give(X):
    matrix = csr(X, np.float32)
    arrays_ = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    prepare = Prepare(**ALL).count(*arrays_, n_features=X.shape[1])
    indptr, indices, data = prepare.apply(*arrays_)
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)
    expected = Prepare(**ALL).fit_transform(matrix)
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_array_equal(data, expected.data)


def test_columns_counted_from_plain_arrays_have_no_names():
    prepare = Prepare().fit(pd.DataFrame([[1.0]], columns=["a"]))
    prepare.count([0, 1], np.array([1]), np.ones(1))
    assert prepare.get_feature_names_out().tolist() == ["x0", "x1"]


def test_a_block_without_rows_stays_one():
    prepare = Prepare(tfidf=True, min_df=1).fit(csr([[1.0, 0]]))
    empty = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    indptr, indices, data = prepare.count(*empty).apply(*empty)
    assert (indptr.tolist(), len(indices), data.dtype) == ([0], 0, np.float32)
    assert prepare.n_rows_ == 1


# --- types and copies ----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_copied_where_nothing_changes(X, layout):
    matrix = LAYOUTS[layout](X, np.float32)
    assert Prepare(max_df=1.0, dtype="float32").fit(matrix).transform(matrix) is matrix


def test_a_given_type_is_that_of_the_result(X):
    assert Prepare(norm="l2", dtype=np.float32).fit_transform(csr(X)).dtype == np.float32


@pytest.mark.parametrize("form", ["coo", "csc", "lil", "bsr"])
def test_other_formats_become_sorted_rows_with_int32(X, form):
    prepared = Prepare(norm="l2", min_df=2).fit_transform(csr(X, index=np.int64).asformat(form))
    assert prepared.format == "csr"
    assert prepared.indices.dtype == np.int32
    assert prepared.has_canonical_format


def test_the_matrix_given_stays_as_it_is(X):
    matrix = csr(X)
    Prepare(**ALL).fit_transform(matrix)
    np.testing.assert_array_equal(matrix.toarray(), X)


def test_a_pipeline_clusters_what_is_prepared(X):
    pipeline = make_pipeline(Prepare(**ALL), KMeans(3, random_state=0))
    labels = pipeline.fit_predict(csr(X))
    np.testing.assert_array_equal(pipeline.predict(csr(X)), labels)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(value):
    with pytest.raises(ValueError, match="row 1, column 2"):
        Prepare().fit(csr([[1.0, 0, 1], [0, 1, value]]))


def test_logarithm_of_values_below_minus_one_is_refused_by_row_and_column():
    prepare = Prepare(log=True, min_df=1).fit(csr([[1.0, 0, 1.0]]))
    with pytest.raises(ValueError, match=r"row 11, column 2 has -1\. "):
        prepare.apply([0, 1, 2], [0, 2], np.array([1.0, -1.0]), first_row=10)


def test_values_too_large_for_the_type_asked_for_are_refused():
    with pytest.raises(ValueError, match="too large for float32: row 0, column 1"):
        Prepare(dtype="float32").fit_transform(csr([[1.0, 1e39]]))


def test_no_column_left_is_refused_with_the_reason():
    X = csr([[1.0, 1, 0], [1, 0, 1]])
    with pytest.raises(ValueError, match=r"of 3 columns, 2 occur in too few .* and 1 in too many"):
        Prepare(min_df=2, max_df=0.5).fit(X)


def test_no_column_left_yet_may_change_with_more_rows():
    prepare = Prepare(min_df=2).partial_fit(csr([[1.0, 0]]))
    with pytest.raises(ValueError, match="No column is left"):
        prepare.transform(csr([[1.0, 0]]))
    assert prepare.partial_fit(csr([[1.0, 0]])).columns_.tolist() == [0]


def test_rows_that_are_refused_change_no_counts():
    prepare = Prepare().partial_fit(np.eye(2))
    with pytest.raises(ValueError, match="NaN"):
        prepare.partial_fit(np.full((1, 3), np.nan))
    assert (prepare.n_features_in_, prepare.n_rows_) == (2, 2)


def test_values_of_a_block_that_are_integers_are_refused():
    with pytest.raises(ValueError, match="float32 or float64, got int64"):
        Prepare(norm="l2").fit(np.eye(2)).apply([0, 1], [1], np.array([3]))


def test_a_column_that_was_not_counted_is_refused():
    with pytest.raises(ValueError, match="has a column 2, but 2 columns were counted"):
        Prepare(norm="l2").fit(np.eye(2)).apply([0, 1], [2], np.ones(1))


@pytest.mark.parametrize("min_df", [1, 2, 3, 0.0, 0.3, 0.7])
@pytest.mark.parametrize("max_df", [1.0, 0.9, 0.5, 2, 3, 4])
def test_limits_are_those_of_scikit_learn(min_df, max_df):
    from sklearn.feature_extraction.text import CountVectorizer

    texts = ["a b c d", "a b c", "a b e", "a b f"]
    options = {"token_pattern": r"\w"}
    X = CountVectorizer(**options).fit_transform(texts).astype(float)
    try:
        limited = CountVectorizer(min_df=min_df, max_df=max_df, **options).fit(texts)
    except ValueError:  # it says of some limits that they exclude each other
        with pytest.raises(ValueError, match="No column is left"):
            Prepare(min_df=min_df, max_df=max_df).fit(X)
        return
    prepare = Prepare(min_df=min_df, max_df=max_df).fit(X)
    names = prepare.get_feature_names_out(list("abcdef"))
    assert names.tolist() == limited.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "option",
    [
        {"min_df": -1},
        {"min_df": 1.5},
        {"min_df": True},
        {"min_df": float("nan")},
        {"max_df": 0},
        {"max_df": 0.0},
        {"max_df": 1.5},
        {"max_df": True},
        {"log": "log1p"},
        {"norm": "l1"},
        {"norm": True},
        {"dtype": "int32"},
        {"dtype": "text"},
    ],
)
def test_options_out_of_range_are_refused_by_name(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Prepare(**option).fit(np.eye(2))


# --- states --------------------------------------------------------------------------------------


def test_a_state_gives_the_same_results(X):
    prepare = Prepare(**ALL, dtype=np.float32).fit(csr(X))
    state = prepare.get_state()
    counts_ = state.pop("row_counts")
    again = Prepare.from_state({**json.loads(json.dumps(state)), "row_counts": counts_})
    np.testing.assert_array_equal(
        again.transform(csr(X)).toarray(), prepare.transform(csr(X)).toarray()
    )


def test_there_is_no_state_before_the_first_row():
    with pytest.raises(NotFittedError):
        Prepare().get_state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_counts": np.array([1, 3])}, "column 1 occurs in 3 of 2 rows"),
        ({"row_counts": np.array([-1, 0])}, "column 0 occurs in -1"),
        ({"row_counts": np.array([1.0])}, "vector of integers"),
        ({"row_counts": [1, 2]}, "vector of integers"),
        ({"n_rows": -2}, "n_rows"),
        ({"n_rows": True}, "n_rows"),
        ({"n_rows": 10**400}, "n_rows"),
        ({"parameters": {"log": True}}, "parameters"),
        ({"parameters": None}, "parameters"),
        ({"more": 1}, "state must be a dict of"),
    ],
)
def test_broken_states_are_refused(change, message):
    state = Prepare().fit(np.eye(2)).get_state()
    with pytest.raises(ValueError, match=message):
        Prepare.from_state({**state, **change})


def test_a_state_with_a_parameter_of_another_type_is_refused():
    state = Prepare().fit(np.eye(2)).get_state()
    state["parameters"]["tfidf"] = "no"
    with pytest.raises(ValueError, match="tfidf must be True or False"):
        Prepare.from_state(state)
