"""Embeddings from the command line: `fit --embedding`, `convert --embed`."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import (
    KMeans,
    Prepare,
    SparseEmbedding,
    SphericalKMeans,
    load_model,
    open_store,
    read,
)
from sparsecluster.cli import app


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command in a folder with data; its exit status, and what it wrote."""
    monkeypatch.chdir(tmp_path)
    X = sp.random_array((90, 200), density=0.1, format="csr", rng=1)
    X[:, [0]] = 1.0
    sp.save_npz("x.npz", X)

    def command(*arguments):
        status = 0
        try:
            app.meta(list(map(str, arguments)))
        except SystemExit as ended:
            status = ended.code
        return status, *capfd.readouterr()

    return command


FIT = ("fit", "x.npz", "-k", 4, "--seed", 0)


def test_fit_goes_by_way_of_an_embedding(run):
    status, out, _ = run(*FIT, "--embedding", 30, "--model", "m.safetensors", "--json")
    assert status == 0
    km = KMeans(4, random_state=0, embedding=30).fit(read("x.npz"))
    told = json.loads(out)
    assert told["seconds_by_phase"]["embedding"] > 0
    assert load_model("m.safetensors").embedding == 30
    assert np.array_equal(load_model("m.safetensors").labels_, km.labels_)


def test_finish_none_leaves_the_labels_of_the_embedded_rows(run):
    options = ("--embedding", 30, "--finish", "none", "--metric", "cosine", "--labels", "l.npy")
    assert run(*FIT, *options)[0] == 0
    km = SphericalKMeans(4, random_state=0, embedding=30, finish="none").fit(read("x.npz"))
    assert np.array_equal(np.load("l.npy"), km.labels_)


def test_verbose_names_the_space(run):
    _, out, err = run(*FIT, "--embedding", 30, "--verbose")
    assert "embedded" in out + err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--finish", "none"), "--finish needs --embedding"),
        (("--embedding", 0), "must be a number of components of at least 1"),
        (("--embedding", 30, "--minibatch"), "--embedding cannot be combined with --minibatch"),
        (("--embedding", "svd"), "svd"),
        (("--embedding", 30, "--finish", "later"), "later"),
    ],
)
def test_what_cannot_be_is_refused(run, options, message):
    status, _, err = run(*FIT, *options)
    assert status == 2
    assert message in " ".join(err.split())


def test_convert_embeds(run):
    options = ("--tfidf", "--unit", "--embed", 25, "--json")
    status, out, _ = run("convert", "x.npz", "x.store", *options)
    assert status == 0
    assert json.loads(out)["columns"] == 25
    expected = Prepare(tfidf=True, norm="l2", embed=25).fit_transform(read("x.npz").matrix)
    assert np.array_equal(open_store("x.store").matrix.toarray(), expected.toarray())


def test_store_and_file_get_the_same_clusters(run):
    assert run("convert", "x.npz", "x.store", "--unit", "--embed", 25)[0] == 0
    assert run("fit", "x.store", "-k", 4, "--seed", 0, "--model", "m", "--labels", "a.npy")[0] == 0
    assert run("predict", "m", "x.npz", "--labels", "b.npy")[0] == 0
    assert np.array_equal(np.load("a.npy"), np.load("b.npy"))
    status, out, _ = run("inspect", "x.store")
    assert status == 0
    assert "--embed 25" in out


def test_embed_below_one_is_refused(run):
    assert run("convert", "x.npz", "x.store", "--embed", 0)[0] == 2


def test_model_with_an_embedding_is_inspected_and_reported_on(run):
    embedding = SparseEmbedding(20, hashed=False)
    KMeans(4, random_state=0, embedding=embedding).fit(read("x.npz")).save("m")
    status, out, _ = run("inspect", "m")
    assert status == 0
    assert "SparseEmbedding(hashed=False, n_components=20)" in " ".join(out.split())
    assert json.loads(run("inspect", "m", "--json")[1])["parameters"]["embedding"]
    assert run("report", "m", "x.npz", "--out", "m.html")[0] == 0
    page = Path("m.html").read_text()
    assert "cost of the embedded rows" in page


def test_model_that_is_an_embedding_has_no_clusters(run):
    SparseEmbedding(20).fit(read("x.npz")).save("e")
    status, out, _ = run("inspect", "e")
    assert status == 0
    assert "200, of which it makes 20" in out
    for command in (("predict", "e", "x.npz"), ("report", "e")):
        status, _, err = run(*command)
        assert status == 2
        assert "no clusters" in err
