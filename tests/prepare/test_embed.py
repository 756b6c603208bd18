"""`embed` as a step of preparing: the same as an embedding afterwards, in memory and in stores."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from support.compare import same
from support.data import counts as make_counts
from support.data import csr, dense

from sparsecluster import KMeans, Prepare, SparseEmbedding, convert, load_model, open_store, read

COUNTS = csr(make_counts(np.random.default_rng(0)))
STEPS = {"min_df": 4, "max_df": 0.6, "log": True, "tfidf": True, "norm": "l2"}


def test_embedding_is_the_last_step():
    made = Prepare(**STEPS, embed=30).fit_transform(COUNTS)
    prepared = Prepare(**STEPS).fit_transform(COUNTS)
    embedding = SparseEmbedding(30, random_state=0, output="sparse")
    assert same(dense(made), dense(embedding.fit_transform(prepared)))
    assert made.shape == (600, 30)
    assert sp.issparse(made)
    assert same(Prepare(**STEPS, embed=30).fit_transform(dense(COUNTS)), dense(made))


def test_values_are_rounded_once():
    made = Prepare(norm="l2", embed=30, dtype="float32").fit_transform(COUNTS)
    exact = Prepare(norm="l2", embed=30).fit_transform(COUNTS)
    assert same(dense(made), dense(exact).astype(np.float32))


def test_names_are_those_of_components():
    prepare = Prepare(min_df=3, embed=4).fit(COUNTS)
    assert prepare.get_feature_names_out().tolist() == [f"component{i}" for i in range(4)]


def test_state_without_embedding_is_that_of_before():
    state = Prepare(norm="l2").fit(COUNTS).get_state()
    assert "embed" not in state["parameters"]
    assert Prepare.from_state(state).embed is None
    embedded = Prepare(norm="l2", embed=7).fit(COUNTS).get_state()
    assert Prepare.from_state(embedded).embed == 7


@pytest.mark.parametrize("embed", [0, -3, 2.5, True, "many", 2**31])
def test_what_is_no_number_of_columns_is_refused(embed):
    with pytest.raises(ValueError, match="embed must be an integer of at least 1 or None"):
        Prepare(embed=embed).fit(COUNTS)


@pytest.fixture
def npz(tmp_path):
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(COUNTS))
    return tmp_path / "rows.npz"


def test_store_holds_embedded_rows(npz, tmp_path):
    prepare = Prepare(**STEPS, embed=30)
    stored = convert(npz, tmp_path / "rows.store", prepare=prepare)
    expected = clone(prepare).fit_transform(COUNTS)
    assert stored.shape == (600, 30)
    assert same(dense(stored.matrix), dense(expected))
    assert same(dense(read(npz, prepare=prepare).matrix), dense(expected))
    opened = open_store(tmp_path / "rows.store")
    assert opened.recipe.embedded
    assert opened.feature_names is None


def test_model_of_a_store_predicts_files_as_they_were_converted(npz, tmp_path):
    convert(npz, tmp_path / "rows.store", prepare=Prepare(**STEPS, embed=30))
    km = KMeans(4, random_state=0).fit(tmp_path / "rows.store")
    km.save(tmp_path / "model")
    for model in (km, load_model(tmp_path / "model")):
        assert same(model.predict(npz), km.labels_)
        assert same(model.predict(tmp_path / "rows.store"), km.labels_)
        like = convert(npz, tmp_path / "like.store", like=model, overwrite=True)
        assert same(model.predict(like), km.labels_)
    with pytest.raises(ValueError, match="not prepared in the same way"):
        km.predict(read(npz, prepare=Prepare(**STEPS | {"log": False}, embed=30)))


TEXTS = ["sparse rows of text", "rows and columns", "text of words", "words in columns of text"] * 9


def test_vocabulary_of_texts_stays_known(tmp_path):
    (tmp_path / "docs.txt").write_text("\n".join(TEXTS))
    (tmp_path / "more.txt").write_text("columns of words\nunknown words in sparse text\n")
    prepare = Prepare(tfidf=True, norm="l2", embed=5)
    convert(tmp_path / "docs.txt", tmp_path / "docs.store", prepare=prepare)
    for source in (tmp_path / "docs.txt", tmp_path / "docs.store"):
        rows = read(source, prepare=prepare) if source.suffix == ".txt" else open_store(source)
        assert rows.n_features == 5
        assert "columns" in list(rows.recipe.names)
        km = KMeans(2, random_state=0).fit(rows)
        assert km.feature_names_ is None
        km.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert same(loaded.predict(tmp_path / "docs.txt"), km.labels_)
        assert len(loaded.predict(tmp_path / "more.txt")) == 2


def test_embedded_store_cannot_be_prepared_again(npz, tmp_path):
    convert(npz, tmp_path / "rows.store", prepare=Prepare(embed=30))
    with pytest.raises(ValueError, match="prepared already"):
        convert(tmp_path / "rows.store", tmp_path / "other.store", prepare=Prepare(embed=20))
