"""Files read in the way of others: the labels of the model, or a refusal, never other labels."""

import json
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from sparsecluster import (
    KMeans,
    MiniBatchKMeans,
    Prepare,
    SphericalKMeans,
    TextOptions,
    convert,
    load_model,
    metalabels,
    open_store,
    read,
)

PREPARE = {
    "counts": None,
    "tf-idf": Prepare(tfidf=True, norm="l2"),
    "dropped": Prepare(tfidf=True, min_df=12, log=True),
}
SOURCES = ("svm from zero", "svm from one", "npz", "store", "prepared store", "matrix")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same counts in all forms; the first and the last column are empty at times."""
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for name, empty in {"plain": [], "first empty": [0], "last empty": [39]}.items():
        rng = np.random.RandomState(3)
        dense = rng.poisson(rng.gamma(0.3, 1, size=(1, 40)), size=(150, 40)).astype(np.float32)
        dense[:, empty] = 0
        dense[:, 5] = np.maximum(dense[:, 5], 1)
        X = sp.csr_array(dense)
        here = folder / name.replace(" ", "-")
        here.mkdir()
        sp.save_npz(here / "x.npz", X)
        dump_svmlight_file(X, np.zeros(150), str(here / "x0.svm"), zero_based=True)
        dump_svmlight_file(X, np.zeros(150), str(here / "x1.svm"), zero_based=False)
        convert(here / "x.npz", here / "raw.store")
        for kind, prepare in PREPARE.items():
            convert(here / "x.npz", here / f"{kind}.store", prepare=prepare)
        found[name] = here, X
    return found


def given(folder, X, source, kind):
    paths = {
        "svm from zero": folder / "x0.svm",
        "svm from one": folder / "x1.svm",
        "npz": folder / "x.npz",
        "store": folder / "raw.store",
        "prepared store": folder / f"{kind}.store",
        "matrix": X,
    }
    return paths[source]


@pytest.mark.parametrize("kind", PREPARE)
@pytest.mark.parametrize("data", ["plain", "first empty", "last empty"])
def test_labels_are_those_of_the_model_or_refused(files, data, kind):
    folder, X = files[data]
    alike = 0
    for fitted, predicted in product(SOURCES[:-1], SOURCES):
        source = given(folder, X, fitted, kind)
        zero_based = {"svm from zero": True, "svm from one": False}.get(fitted)
        if fitted == "prepared store":
            rows = open_store(source)
        else:
            rows = read(source, prepare=PREPARE[kind], zero_based=zero_based)
        model = KMeans(4, random_state=0).fit(rows)
        try:
            labels = model.predict(given(folder, X, predicted, kind))
        except ValueError:
            continue
        if predicted == "matrix" and kind != "counts":
            continue  # a matrix says nothing of itself
        if {fitted, predicted} == {"svm from zero", "svm from one"} and data != "plain":
            continue  # nobody can tell
        assert np.array_equal(labels, model.labels_), (fitted, predicted)
        alike += 1
    assert alike >= 10


def test_the_base_of_columns_must_be_told_where_nobody_knows(files):
    folder, X = files["plain"]
    model = KMeans(4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="zero-based"):
        model.predict(folder / "x1.svm")
    rows = read(folder / "x1.svm", zero_based=False, like=model)
    assert np.array_equal(model.predict(rows), model.labels_)


def test_a_store_that_is_converted_again_keeps_its_recipe(files, tmp_path):
    folder, _ = files["plain"]
    again = convert(folder / "tf-idf.store", tmp_path / "again.store", dtype="float64")
    model = KMeans(4, random_state=0).fit(again)
    assert np.array_equal(model.predict(folder / "x.npz"), model.labels_)
    assert np.array_equal(model.predict(folder / "tf-idf.store"), model.labels_)
    like = convert(folder / "tf-idf.store", tmp_path / "like.store", like=model)
    assert np.array_equal(model.predict(like), model.labels_)


def test_prepared_data_are_not_prepared_again(files, tmp_path):
    folder, _ = files["plain"]
    with pytest.raises(ValueError, match="prepared already"):
        convert(folder / "tf-idf.store", tmp_path / "x.store", prepare=Prepare(norm="l2"))
    with pytest.raises(ValueError, match="prepared already"):
        read(folder / "tf-idf.store", prepare=Prepare(norm="l2"))


def test_another_type_of_values_is_only_that(files):
    folder, _ = files["plain"]
    model = KMeans(4, random_state=0).fit(folder / "tf-idf.store")
    rows = read(folder / "tf-idf.store", dtype="float64", like=model)
    assert np.array_equal(rows.matrix.data, open_store(folder / "tf-idf.store").matrix.data)


def test_rows_that_were_prepared_in_another_way_are_refused(files):
    folder, _ = files["plain"]
    model = KMeans(4, random_state=0).fit(folder / "tf-idf.store")
    with pytest.raises(ValueError, match="same way"):
        model.predict(read(folder / "x.npz"))
    stream = MiniBatchKMeans(4, random_state=0).fit(folder / "tf-idf.store")
    with pytest.raises(ValueError, match="same way"):
        stream.partial_fit(open_store(folder / "raw.store"))


# --- text -------------------------------------------------------------------------------------

TEXTS = ["red apple", "green apple, green pear", "blue sky", "sky and sea: blue, blue"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(TEXTS))
    return path


def test_a_recipe_is_an_example_too(text, tmp_path):
    rows = read(text, ngram_range=(1, 2), prepare=Prepare(tfidf=True, min_df=2, norm="l2"))
    for like in (rows.recipe, type(rows.recipe).from_state(rows.recipe.get_state())):
        again = read(text, like=like)
        assert np.array_equal(again.matrix.toarray(), rows.matrix.toarray())
        assert again.recipe.described() == rows.recipe.described()


def test_the_words_of_a_recipe_are_plain_data(text):
    state = read(text, stop_words=("and",), prepare=Prepare(max_df=0.9)).recipe.get_state()
    arrays = (state.pop("names"), state["prepare"].pop("row_counts"))
    assert all(isinstance(array, np.ndarray) for array in arrays)
    assert json.loads(json.dumps(state)) == state


def test_counts_of_the_same_words_are_weighted(text, tmp_path):
    model = KMeans(2, random_state=0).fit(read(text, prepare=Prepare(tfidf=True, norm="l2")))
    convert(text, tmp_path / "a.store")
    rows = read(tmp_path / "a.store", like=model)
    assert np.array_equal(rows.matrix.data, read(text, like=model).matrix.data)


def test_other_words_are_refused(text, tmp_path):
    model = KMeans(2, random_state=0).fit(read(text))
    other = tmp_path / "b.txt"
    other.write_text("\n".join(one[::-1] for one in TEXTS))
    with pytest.raises(ValueError, match="other names"):
        model.predict(read(other))
    convert(other, tmp_path / "b.store")
    with pytest.raises(ValueError, match="none of the expected columns"):
        model.predict(tmp_path / "b.store")


def test_names_to_be_shown_are_not_the_vocabulary(text, tmp_path):
    rows = read(text)
    shown = [f"word {i}" for i in range(rows.n_features)]
    model = KMeans(2, random_state=0).fit(rows, feature_names=shown)
    model.save(tmp_path / "m.st")
    for one in (model, load_model(tmp_path / "m.st")):
        assert np.array_equal(one.predict(text), model.labels_)
        assert one.top_terms(1)[0][0].startswith("word ")


def test_a_matrix_of_unknown_values_is_refused_for_weighted_text(text, tmp_path):
    rows = read(text, prepare=Prepare(tfidf=True))
    model = KMeans(2, random_state=0).fit(rows)
    sp.save_npz(tmp_path / "x.npz", rows.matrix)
    with pytest.raises(ValueError, match="its values may not be counts"):
        model.predict(tmp_path / "x.npz")
    assert np.array_equal(model.predict(sp.load_npz(tmp_path / "x.npz")), model.labels_)


def test_column_and_encoding_are_the_files_own(text, tmp_path):
    model = KMeans(2, random_state=0).fit(read(text))
    table = tmp_path / "b.csv"
    table.write_text("title,body\n" + "".join(f'x,"{one}"\n' for one in TEXTS), encoding="utf-16")
    rows = read(table, text=TextOptions(column="body", encoding="utf-16"), like=model)
    assert np.array_equal(model.predict(rows), model.labels_)
    with pytest.raises(ValueError, match="ngram_range"):
        read(text, text=TextOptions(ngram_range=(1, 2)), like=model)


# --- other options ----------------------------------------------------------------------------


def test_a_transposed_file_is_transposed_again(tmp_path):
    import scipy.io

    X = sp.random_array((30, 30), density=0.3, format="csr", rng=5)
    scipy.io.mmwrite(tmp_path / "x.mtx", X)
    model = KMeans(3, random_state=0).fit(read(tmp_path / "x.mtx", transpose=True))
    assert np.array_equal(model.predict(tmp_path / "x.mtx"), model.labels_)


def test_numbers_are_rounded_as_they_were(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("".join(f"0 1:{16777216 + i % 2} 2:1\n" for i in range(6)))
    model = KMeans(2, random_state=0).fit(read(path, dtype="float64"))
    assert np.array_equal(model.predict(path), model.labels_)
    assert len(set(model.labels_)) == 2


def test_rows_made_of_labels_know_how(tmp_path):
    path = tmp_path / "y.svm"
    path.write_text("0,1 1:2 2:1\n1 2:3\n2 3:1 1:1\n0 3:2\n")
    from sparsecluster.prepare.metalabels import label_rows

    rows = read(path, prepare=Prepare(tfidf=True))
    made = label_rows(rows, path)
    assert np.array_equal(made.matrix.toarray(), metalabels(rows, rows.labels).toarray())
    model = KMeans(2, random_state=0).fit(made)
    assert np.array_equal(model.predict(path), model.predict(rows))


def test_features_grow_from_files_too(tmp_path):
    X = sp.random_array((60, 20), density=0.3, format="csr", rng=1)
    wider = sp.random_array((60, 30), density=0.3, format="csr", rng=2)
    sp.save_npz(tmp_path / "x.npz", X)
    sp.save_npz(tmp_path / "w.npz", wider)
    from_files = MiniBatchKMeans(3, random_state=0, grow_features=True)
    from_memory = MiniBatchKMeans(3, random_state=0, grow_features=True)
    from_files.partial_fit(tmp_path / "x.npz").partial_fit(tmp_path / "w.npz")
    from_memory.partial_fit(X).partial_fit(wider)
    assert np.array_equal(from_files.predict(tmp_path / "w.npz"), from_memory.predict(wider))
    assert np.array_equal(from_files.predict(tmp_path / "x.npz"), from_memory.predict(X))


def test_zero_rows_of_a_block_are_told_by_their_place_in_the_file(tmp_path, monkeypatch):
    import sparsecluster.formats.text as text_module
    from sparsecluster import read_blocks

    path = tmp_path / "a.txt"
    path.write_text("\n".join(TEXTS * 10 + ["nothing known"]))
    known = tmp_path / "known.txt"
    known.write_text("\n".join(TEXTS))
    model = SphericalKMeans(2, random_state=0).fit(known)
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", 20)
    blocks = read_blocks(path, like=model)
    with pytest.raises(ValueError, match="Row 40 of X is zero"):
        list(map(model.predict, blocks))
