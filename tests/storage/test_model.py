"""Model files: what is saved comes back."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from sklearn.base import clone
from support.compare import same
from support.data import csr, problem

from sparsecluster import KMeans, MiniBatchKMeans, load_model

X, _ = problem("text")
SCALARS = ("inertia_", "objective_", "n_iter_", "algorithm_", "n_clusters_", "n_features_in_")


def reloaded(km, tmp_path, **options):
    km.save(tmp_path / "model")
    return load_model(tmp_path / "model", **options)


# --- what comes back ---------------------------------------------------------------------------


def test_labels_can_be_left_out(tmp_path):
    KMeans(3, random_state=0).fit(X).save(tmp_path / "model", labels=False)
    other = load_model(tmp_path / "model")
    assert not hasattr(other, "labels_")
    assert len(other.predict(X)) == len(X)


NAMES = [f"word{i}" for i in range(147)] + ["größe", "日本\n語", ""]


def test_names_come_back_one_by_one_and_together(tmp_path):
    km = KMeans(3, random_state=0).fit(X, feature_names=NAMES)
    other = reloaded(km, tmp_path)
    assert other.feature_names_[148] == "日本\n語"
    assert other.top_terms(5) == km.top_terms(5)
    assert list(other.feature_names_) == NAMES
    assert (other.feature_names_ == km.feature_names_).all()
    assert len(other.feature_names_[-2:]) == 2


def test_columns_of_a_data_frame_are_held_against_those_of_fit(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    other = reloaded(KMeans(3, random_state=0).fit(frame), tmp_path)
    assert same(other.predict(frame), other.labels_)
    with pytest.raises(ValueError, match="feature names"):
        other.predict(frame.rename(columns={"word3": "word4000"}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), (7, 7), (np.int64(7), 7), (np.random.RandomState(7), None)],
    ids=["none", "int", "numpy", "object"],
)
def test_seed_comes_back_if_it_is_a_number(value, expected, tmp_path):
    assert reloaded(KMeans(3, random_state=value).fit(X), tmp_path).random_state == expected


def test_functions_are_left_out_and_the_file_says_so(tmp_path):
    km = KMeans(3, init=lambda X, k, random_state: X[:k], callback=lambda record: None).fit(X)
    other = reloaded(km, tmp_path)
    assert (other.init, other.callback) == ("k-means++", None)
    with safetensors.safe_open(tmp_path / "model", "numpy") as file:
        assert json.loads(file.metadata()["sparsecluster"])["left_out"] == ["callback", "init"]


@pytest.mark.parametrize("layout", [csr, np.array], ids=["sparse", "dense"])
def test_given_centers_come_back_as_a_parameter(layout, tmp_path):
    start = layout(X[:3])
    other = reloaded(KMeans(3, init=start).fit(X), tmp_path)
    assert same(start, other.init)
    assert same(other.labels_, clone(other).fit(X).labels_)


def test_recipe_comes_back(tmp_path):
    km = KMeans(3, random_state=0).fit(X)
    km.recipe_ = {
        "steps": [{"name": "tfidf", "idf": np.arange(3.0), "ngrams": (1, 2)}, "unit"],
        "values": {"a": np.float32([1.5, np.nan]), "b": float("-inf"), "c": None, "d": True},
        "mask": np.array([[True], [False]]),
        "words": [f"w{i}" for i in range(500)],
    }
    assert same(reloaded(km, tmp_path).recipe_, km.recipe_)


def test_recipe_that_cannot_be_kept_is_refused_and_the_old_file_stays(tmp_path):
    km = KMeans(3, random_state=0).fit(X)
    km.save(tmp_path / "model")
    km.recipe_ = {"steps": [object()]}
    with pytest.raises(TypeError, match=r"recipe_\.steps\.0 cannot be kept"):
        km.save(tmp_path / "model")
    assert same(load_model(tmp_path / "model").labels_, km.labels_)


@pytest.mark.parametrize("mmap", [True, False])
def test_copies_of_a_loaded_model_need_no_file(mmap, tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X), feature_names=NAMES)
    other = reloaded(km, tmp_path, mmap=mmap)
    for copied in (pickle.loads(pickle.dumps(other)), copy.deepcopy(other)):
        assert type(copied.feature_names_) is np.ndarray
        assert copied.cluster_centers_.data.flags.writeable
        assert same(copied.cluster_centers_, km.cluster_centers_)
        assert same(copied.predict(csr(X)), km.labels_)
    assert same(clone(other).fit(csr(X)).labels_, km.labels_)


def test_loaded_model_can_be_saved_over_its_own_file(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X), feature_names=NAMES)
    again = reloaded(reloaded(km, tmp_path), tmp_path)
    assert same(again.cluster_centers_, km.cluster_centers_)
    assert list(again.feature_names_) == NAMES


def test_file_is_one_that_safetensors_reads(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X))
    km.save(tmp_path / "model")
    found = safetensors.numpy.load_file(tmp_path / "model")
    assert same(found["cluster_centers_.data"], km.cluster_centers_.data)


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("options", [{}, {"center_l1": 3.0}, {"memory_limit": 100_000}])
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_stream_goes_on_to_the_bit(metric, options, start, tmp_path):
    one = MiniBatchKMeans(9, metric=metric, zero_rows="first", random_state=0, **options)
    getattr(one, start)(csr(X[:100]))
    one.partial_fit(csr(X[100:150]))
    other = reloaded(one, tmp_path)
    assert other.n_steps_ == one.n_steps_
    assert same(other.counts_, one.counts_)
    for km in (one, other):
        for begin in range(150, 600, 50):
            km.partial_fit(csr(X[begin : begin + 50]))
    assert same(one.labels_, other.labels_)
    assert same(one.cluster_centers_, other.cluster_centers_)
    assert one.inertia_ == other.inertia_


@pytest.mark.parametrize("layout", [csr, np.array], ids=["sparse", "dense"])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 5.0)], ids=["alike", "weighted"])
def test_rows_that_wait_still_do(layout, weights, tmp_path):
    one = MiniBatchKMeans(9, random_state=0)
    with pytest.warns(UserWarning, match="no centers yet"):
        one.partial_fit(layout(X[:4]), sample_weight=weights)
    other = reloaded(one, tmp_path)
    for km in (one, other):
        km.partial_fit(layout(X[4:60]))
    assert same(one.cluster_centers_, other.cluster_centers_)
    assert same(one.counts_, other.counts_)


def test_features_grow_after_loading(tmp_path):
    one = MiniBatchKMeans(3, grow_features=True, random_state=0).partial_fit(csr(X[:50, :100]))
    other = reloaded(one, tmp_path)
    for km in (one, other):
        km.partial_fit(csr(X[50:]))
    assert same(one.cluster_centers_, other.cluster_centers_)


def test_parameter_that_a_stream_began_with_cannot_change_after_loading(tmp_path):
    km = MiniBatchKMeans(3, random_state=0).partial_fit(csr(X))
    with pytest.raises(ValueError, match="center_nnz changed"):
        reloaded(km, tmp_path).set_params(center_nnz=2).partial_fit(csr(X))
