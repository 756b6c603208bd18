"""AnnData objects as X: in memory or backed by a file, with names, and matched by them."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from support.matrix_files import write_cells

from sparsecluster import KMeans, MiniBatchKMeans, Prepare, load_model, read
from sparsecluster.prepare.entrance import enter

GENES = [f"gene{i}" for i in range(12)]
CELLS = [f"cell{i}" for i in range(60)]


class Backed:
    """A dataset as a backed AnnData gives it: not a matrix until it is asked for one."""

    def __init__(self, matrix):
        self._matrix, self.format, self.shape = matrix, matrix.format, matrix.shape

    def to_memory(self):
        return self._matrix


def annotated(matrix, genes=GENES, cells=CELLS):
    """What the library looks at of an AnnData."""
    return SimpleNamespace(X=matrix, var_names=genes, obs_names=cells)


@pytest.fixture
def matrix():
    return sp.random_array((60, 12), density=0.4, format="csr", dtype=np.float32, rng=0)


KINDS = {
    "csr": lambda X: X,
    "csc": lambda X: X.tocsc(),
    "dense": lambda X: X.toarray(),
    "backed": Backed,
    "backed csc": lambda X: Backed(X.tocsc()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_and_its_matrix_are_rows_like_any_other(matrix, kind):
    expected = KMeans(3, random_state=0).fit(matrix).labels_
    X = KINDS[kind](matrix)
    model = KMeans(3, random_state=0).fit(annotated(X))
    assert np.array_equal(model.labels_, expected)
    assert list(model.feature_names_) == GENES
    assert np.array_equal(KMeans(3, random_state=0).fit(X).labels_, expected)
    rows = enter(annotated(X))
    assert (list(rows.ids), list(rows.feature_names)) == (CELLS, GENES)


@pytest.mark.parametrize("kind", KINDS)
def test_genes_in_another_order_are_matched_by_name(matrix, tmp_path, kind):
    order = np.random.RandomState(1).permutation(12)
    turned = annotated(KINDS[kind](matrix[:, order]), [GENES[i] for i in order])
    write_cells(tmp_path / "x.h5ad", matrix, GENES)
    write_cells(tmp_path / "turned.h5ad", matrix[:, order], turned.var_names)
    for fitted in (annotated(matrix), tmp_path / "x.h5ad"):
        model = KMeans(3, random_state=0).fit(fitted)
        model.save(tmp_path / "m.st")
        for one in (model, load_model(tmp_path / "m.st")):
            assert np.array_equal(one.predict(turned), model.labels_)
            assert np.array_equal(one.predict(tmp_path / "turned.h5ad"), model.labels_)


def test_missing_genes_are_refused_and_the_advice_helps(matrix, tmp_path):
    model = KMeans(3, random_state=0).fit(annotated(matrix))
    with pytest.raises(ValueError, match=r"X lacks 2 of the 12 expected columns \(gene0, gene1\)"):
        model.predict(annotated(matrix[:, 2:], GENES[2:]))
    write_cells(tmp_path / "few.h5ad", matrix[:, 2:], GENES[2:])
    with pytest.warns(UserWarning, match="lacks 2 of the 12"):
        rows = read(tmp_path / "few.h5ad", like=model, missing_columns="zero")
    assert model.predict(rows).shape == (60,)


def test_values_of_another_preparation_are_refused(matrix, tmp_path):
    write_cells(tmp_path / "x.h5ad", matrix, GENES)
    model = KMeans(3, random_state=0).fit(read(tmp_path / "x.h5ad", prepare=Prepare(log=True)))
    with pytest.raises(ValueError, match="not prepared in the same way"):
        model.predict(annotated(matrix))


def test_an_object_without_a_matrix_is_refused():
    with pytest.raises(ValueError, match="AnnData without a matrix X"):
        KMeans(3).fit(annotated(None))


def test_streams_take_objects(matrix):
    model = MiniBatchKMeans(3, random_state=0).fit(annotated(matrix))
    model.partial_fit(annotated(matrix))
    assert model.predict(annotated(matrix)).shape == (60,)


def test_real_objects(matrix, tmp_path):
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    made = anndata.AnnData(
        sp.csr_matrix(matrix), obs=pandas.DataFrame(index=CELLS), var=pandas.DataFrame(index=GENES)
    )
    made.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    expected = KMeans(3, random_state=0).fit(matrix)
    for X in (made, made.X, made[:, :], made[:].X, backed, backed.X, backed[:]):
        assert np.array_equal(KMeans(3, random_state=0).fit(X).labels_, expected.labels_)
    model = KMeans(3, random_state=0).fit(backed)
    assert np.array_equal(model.predict(made[:, ::-1]), expected.labels_)
