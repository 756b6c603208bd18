"""Stores and models with recipes in the words of version 1 (min_rows, max_share, unit, ngrams).

The archive holds two files and what was made of them: docs by tf-idf, unit rows, terms of up to two
words that occur in two rows at least; rows by logarithms, columns that occur in two rows at least.
"""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from sparsecluster import Prepare, convert, load_model, open_store, read
from sparsecluster.rows.recipe import Recipe

NEW = {
    "docs": {"prepare": Prepare(tfidf=True, norm="l2", min_df=2, max_df=0.9)},
    "rows": {"prepare": Prepare(log=True, min_df=2)},
}
NEW["docs"] |= {"stop_words": ["and"], "ngram_range": (1, 2)}
SOURCES = {"docs": "docs.txt", "rows": "rows.svm"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("version-1")
    with zipfile.ZipFile(Path(__file__).with_name("version_1.zip")) as archive:
        archive.extractall(folder)
    return folder


def test_recipes_are_told_in_the_words_of_today(folder):
    docs, rows = (open_store(folder / f"{name}.store").recipe for name in ("docs", "rows"))
    assert docs.described() == {
        "text": {"stop_words": ["and"], "ngram_range": [1, 2]},
        "values": {"tfidf": True, "norm": "l2"},
    }
    assert rows.described() == {
        "options": {"zero_based": False},
        "values": {"log": True, "min_df": 2},
    }
    assert (rows.n_columns, rows.n_features) == (9, 3)


@pytest.mark.parametrize("name", NEW)
def test_models_read_files_and_stores_old_and_new(folder, tmp_path, name):
    model = load_model(folder / f"{name}.model")
    new = convert(folder / SOURCES[name], tmp_path / "new.store", **NEW[name])
    assert model.recipe.described() == open_store(folder / f"{name}.store").recipe.described()
    for data in (folder / SOURCES[name], folder / f"{name}.store", new):
        assert np.array_equal(model.predict(data), model.labels_)


@pytest.mark.parametrize("name", NEW)
def test_old_and_new_recipes_make_the_same_rows(folder, name):
    old = open_store(folder / f"{name}.store")
    again = read(folder / SOURCES[name], **NEW[name])
    assert np.array_equal(old.matrix.toarray(), again.matrix.toarray())
    assert again.recipe.same_values(old.recipe)
    like = read(folder / SOURCES[name], like=old)
    assert np.array_equal(old.matrix.toarray(), like.matrix.toarray())


def test_a_model_that_is_saved_again_has_a_new_recipe(folder, tmp_path):
    model = load_model(folder / "rows.model")
    recipe = model.recipe
    assert "version" in Recipe.from_state(recipe.get_state()).get_state()
    model.save(tmp_path / "again.model")
    again = load_model(tmp_path / "again.model")
    assert again.recipe.same_values(recipe)
    assert np.array_equal(again.predict(folder / "rows.svm"), model.labels_)
