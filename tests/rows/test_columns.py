"""Columns that do not occur cost nothing, and change nothing."""

import resource
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, SphericalKMeans, load_model
from sparsecluster.rows import columns

FITS = {
    "auto": lambda: KMeans(20, random_state=1),
    "hamerly": lambda: KMeans(20, algorithm="hamerly", random_state=1),
    "cosine": lambda: SphericalKMeans(20, zero_rows="first", random_state=1),
    "bisecting": lambda: KMeans(5, init="bisecting", random_state=1),
    "furthest-first": lambda: KMeans(5, init="furthest-first", random_state=1),
    "refined": lambda: KMeans(20, refine="first-variation", random_state=1, max_iter=8),
}


@pytest.fixture(scope="module")
def wide():
    """Few entries in a million columns."""
    few = sp.random_array((1000, 6000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    return sp.csr_array((few.data, few.indices * 170 + 5, few.indptr), shape=(1000, 6000 * 170 + 9))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_renumbered_columns_give_the_same_bits(wide, name, monkeypatch):
    renumbered = FITS[name]().fit(wide)
    monkeypatch.setattr(columns, "FEW_COLUMNS", 1 << 40)
    plain = FITS[name]().fit(wide)
    assert renumbered.labels_.tolist() == plain.labels_.tolist()
    assert (renumbered.inertia_, renumbered.n_iter_) == (plain.inertia_, plain.n_iter_)
    assert (renumbered.cluster_centers_ != plain.cluster_centers_).nnz == 0
    assert renumbered.predict(wide).tolist() == plain.labels_.tolist()


def test_given_centers_keep_the_columns_that_no_row_has(wide, monkeypatch):
    start = sp.csr_array(([1.0, 1.0], ([0, 1], [7, 12])), shape=(2, wide.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        renumbered = KMeans(2, init=start, max_iter=3).fit(wide)
        monkeypatch.setattr(columns, "FEW_COLUMNS", 1 << 40)
        plain = KMeans(2, init=start, max_iter=3).fit(wide)
    assert renumbered.labels_.tolist() == plain.labels_.tolist()
    assert (renumbered.cluster_centers_ != plain.cluster_centers_).nnz == 0


def test_a_small_file_of_one_huge_column_number_is_fitted(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 3:1 2147483646:2\n0 4:1\n0 4:2\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    km = KMeans(2, random_state=0).fit(path)
    km.save(tmp_path / "model")
    assert km.labels_[0] != km.labels_[1] == km.labels_[2]
    assert km.predict(path).tolist() == km.labels_.tolist()
    assert load_model(tmp_path / "model").predict(path).tolist() == km.labels_.tolist()
    assert km.transform(path).shape == (3, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kilobytes


def test_data_that_differ_in_their_column_numbers_alone_do_not_share_a_checkpoint(tmp_path, wide):
    from sparsecluster import CheckpointError

    shifted = sp.csr_array((wide.data, wide.indices + 1, wide.indptr), shape=wide.shape)
    KMeans(3, random_state=0, checkpoint=tmp_path).fit(wide)
    with pytest.raises(CheckpointError, match="values"):
        KMeans(3, random_state=0, checkpoint=tmp_path).fit(shifted)
