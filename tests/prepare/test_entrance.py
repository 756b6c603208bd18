"""What people pass as X beyond matrices: tables of other libraries, and texts by mistake."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sparsecluster import KMeans, metalabels, seed_centers

TEXTS = ["red apple", "green apple", "blue sky", "blue sea"]
NAMES = ["a", "b", "c", "d"]


def frame(library, columns):
    if library == "pandas":
        return pd.DataFrame(columns)
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    pyarrow = pytest.importorskip("pyarrow")
    return (
        pyarrow.RecordBatch.from_pydict(columns) if library == "batch" else pyarrow.table(columns)
    )


def taken(X, names):
    return X[names] if isinstance(X, pd.DataFrame) else X.select(names)


@pytest.fixture
def columns():
    values = np.random.RandomState(0).rand(30, 4)
    return {name: values[:, i] for i, name in enumerate(NAMES)}


LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "batch"])


@LIBRARIES
def test_a_table_is_dense_rows_with_names(library, columns):
    X = frame(library, columns)
    expected = KMeans(3, random_state=0).fit(np.column_stack(list(columns.values()))).labels_
    model = KMeans(3, random_state=0).fit(X)
    assert np.array_equal(model.labels_, expected)
    assert list(model.feature_names_in_) == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict(X), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(taken(X, NAMES[::-1]))


@LIBRARIES
def test_columns_of_text_are_refused_by_name(library, columns):
    X = frame(
        library, {**columns, "title": ["x y"] * 30, "n": range(30), "tag": [None] + ["z"] * 29}
    )
    with pytest.raises(ValueError, match=r"X has columns of text: title, tag\. Drop them"):
        KMeans(3).fit(X)


def sequences():
    yield from (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object))
    yield pd.Series(TEXTS)
    yield pytest.importorskip("polars").Series(TEXTS)
    yield pytest.importorskip("pyarrow").array(TEXTS)


def test_texts_are_refused_with_the_lines_that_work():
    for X in sequences():
        with pytest.raises(ValueError, match="X holds texts, and numbers are needed") as refused:
            KMeans(2).fit(X)
        lines = [line.strip() for line in str(refused.value).splitlines() if line[:1] == " "]
        assert len(lines) == 2
        known = {"texts": X}
        exec("\n".join(lines), known)
        assert KMeans(2, random_state=0).fit(known["X"]).labels_.shape == (4,)


def test_texts_are_refused_by_every_entrance_and_for_predict_in_other_words():
    for take in (lambda X: seed_centers(X, 2), lambda X: metalabels(X, [0, 0, 1, 1])):
        with pytest.raises(ValueError, match="holds texts"):
            take(TEXTS)
    model = KMeans(2, random_state=0).fit(np.eye(4))
    with pytest.raises(ValueError, match=r"X = vectorizer.transform\(texts\)"):
        model.predict(TEXTS)


@pytest.mark.parametrize("given", [(row for row in [[1.0]]), {1.0}, {"a": [1.0]}, b"ab"])
def test_what_is_no_table_is_refused_by_its_type(given):
    with pytest.raises(ValueError, match=f"X must be a matrix.*got {type(given).__name__}"):
        KMeans(1).fit(given)


def test_a_lazy_frame_is_to_be_collected(columns):
    with pytest.raises(ValueError, match=r"call \.collect\(\)"):
        KMeans(1).fit(pytest.importorskip("polars").LazyFrame(columns))
