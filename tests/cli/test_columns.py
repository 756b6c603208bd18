"""Files with other columns than those of the fit, by processes: nothing wrong is printed."""

import numpy as np
import pytest
from support.matrix_files import write_cells
from support.processes import Ended, command

from sparsecluster import KMeans

NAMES = [f"gene{i}" for i in range(30)]


def sparsecluster(folder, *arguments):
    status, out, err = command(*arguments, folder=folder, COLUMNS="300")
    return Ended(status, out.decode(), err.decode())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a model of cells.h5ad, and its labels as predict prints them."""
    folder = tmp_path_factory.mktemp("cells")
    X = np.random.RandomState(0).poisson(0.7, size=(60, 30)).astype(np.float32)
    write_cells(folder / "cells.h5ad", X, NAMES)
    write_cells(folder / "rev.h5ad", X[:, ::-1], NAMES[::-1])
    write_cells(folder / "few.h5ad", X[:, 10:], NAMES[10:])
    model = KMeans(3, random_state=0).fit(folder / "cells.h5ad")
    model.save(folder / "cells.model")
    return folder, "".join(f"{label}\n" for label in model.labels_)


def test_genes_in_another_order_get_the_labels_of_the_model(fitted):
    folder, labels = fitted
    done = sparsecluster(folder, "predict", "cells.model", "rev.h5ad")
    assert (done.returncode, done.stdout, done.stderr) == (0, labels, "")
    assert not sparsecluster(
        folder, "convert", "rev.h5ad", "rev.store", "--like", "cells.model"
    ).returncode
    assert sparsecluster(folder, "predict", "cells.model", "rev.store").stdout == labels


def test_missing_genes_are_refused_before_the_first_label_and_the_advice_helps(fitted):
    folder, labels = fitted
    done = sparsecluster(folder, "predict", "cells.model", "few.h5ad")
    assert (done.returncode, done.stdout) == (2, "")
    assert "few.h5ad lacks 10 of the 30 expected columns" in done.stderr
    assert "--missing-columns zero" in done.stderr
    done = sparsecluster(folder, "predict", "cells.model", "few.h5ad", "--missing-columns", "zero")
    assert (done.returncode, done.stdout.count("\n")) == (0, labels.count("\n"))
    assert done.stderr == "warning: few.h5ad lacks 10 of the 30 expected columns: taken as 0.\n"


def test_a_matrix_of_another_width_is_refused_before_the_first_label(fitted):
    folder, _ = fitted
    np.save(folder / "other.npy", np.ones((5, 4)))
    done = sparsecluster(folder, "predict", "cells.model", "other.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "other.npy has 4 columns, but 30 are expected." in done.stderr


def test_stop_words_of_a_language_are_left_out_and_a_wrong_name_is_refused(tmp_path):
    pytest.importorskip("stop_words")
    (tmp_path / "d.txt").write_text("der Hund und die Katze\nein Haus am See\n")
    done = sparsecluster(tmp_path, "convert", "d.txt", "d.store", "--stop-words", "german")
    assert (done.returncode, "4 columns" in done.stdout) == (0, True)
    done = sparsecluster(tmp_path, "convert", "d.txt", "x.store", "--stop-words", "geman")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--stop-words geman is neither a language (arabic, " in done.stderr
    assert not (tmp_path / "x.store").exists()
