"""Commands never write over what they read, nor into a store."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, convert
from sparsecluster.cli import app


def contents(folder):
    """All files below a folder, with what they hold."""
    found = {}
    for parent, folders, names in os.walk(folder):
        found |= {os.path.join(parent, name): None for name in folders}
        found |= {os.path.join(parent, name): held(Path(parent, name)) for name in names}
    return found


def held(path):
    return path.read_bytes() if path.exists() else os.readlink(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, stores and a model, by several names; no test may change anything here."""
    folder = tmp_path_factory.mktemp("outputs")
    X = sp.random_array((60, 8), density=0.5, format="csr", dtype=np.float32, rng=1)
    sp.save_npz(folder / "x.npz", X)
    np.save(folder / "c.npy", X[:3].toarray())
    (folder / "x.svm").write_text("".join(f"{i % 2} {i % 8 + 1}:1\n" for i in range(40)))
    convert(folder / "x.svm", folder / "x.store")
    convert(folder / "x.svm", folder / "other.store")
    KMeans(3, random_state=0).fit(X).save(folder / "m.st")
    (folder / "sub").mkdir()
    (folder / "link.store").symlink_to("x.store")
    (folder / "link.npz").symlink_to("x.npz")
    (folder / "link.npy").symlink_to(folder / "x.store" / "labels.npy")
    (folder / "new.npy").symlink_to(folder / "x.store" / "new.npy")
    os.link(folder / "x.npz", folder / "hard.npz")
    os.link(folder / "m.st", folder / "hard.txt")
    os.link(folder / "x.store" / "labels.npy", folder / "hard.npy")
    return folder


@pytest.fixture
def refused(folder, monkeypatch, capfd):
    """Run a command that must be refused and leave everything as it was; what it said."""
    monkeypatch.chdir(folder)

    def command(*arguments):
        before = contents(folder)
        with pytest.raises(SystemExit) as ended:
            app.meta([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert contents(folder) == before, err
        assert ended.value.code == 2, err
        assert out == ""
        assert len(err.splitlines()) == 1, err
        return err

    return command


INTO_THE_STORE = [
    "x.store/labels.npy",
    "x.store/new.npy",
    "./x.store//labels.npy",
    "sub/../x.store/labels.npy",
    "link.store/labels.npy",
    "link.npy",
    "new.npy",
    "hard.npy",
]


@pytest.mark.parametrize("labels", INTO_THE_STORE)
@pytest.mark.parametrize("data", ["x.store", "x.store/", "link.store", "sub/../x.store"])
def test_labels_of_a_fit_are_not_written_into_its_store(refused, data, labels):
    said = refused("fit", data, "-k", 3, "--labels", labels)
    assert labels.replace("./x.store//", "x.store/") in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "x.store", "-k", 3, "--model", "x.store/meta.json"],
        ["fit", "x.store", "-k", 3, "--model", "x.store/model"],
        ["fit", "x.store", "-k", 3, "--checkpoint", "x.store"],
        ["fit", "x.store", "-k", 3, "--checkpoint", "link.store"],
        ["fit", "x.store", "-k", 3, "--checkpoint", "x.store/state"],
        ["fit", "x.npz", "-k", 3, "--checkpoint", "x.store"],
        ["fit", "x.npz", "-k", 3, "--checkpoint", "x.npz"],
        ["fit", "x.npz", "-k", 3, "--checkpoint", "sub", "--model", "sub/run-0.safetensors"],
        ["fit", "x.npz", "-k", 3, "--labels", "other.store/labels.npy"],
        ["fit", "x.npz", "-k", 3, "--model", "x.npz"],
        ["fit", "x.npz", "-k", 3, "--model", "link.npz"],
        ["fit", "link.npz", "-k", 3, "--model", "x.npz"],
        ["fit", "x.npz", "-k", 3, "--model", "hard.npz"],
        ["fit", "x.npz", "-k", 3, "--model", "sub/../x.npz"],
        ["fit", "x.npz", "-k", 3, "--init", "c.npy", "--labels", "c.npy"],
        ["predict", "m.st", "x.store", "-o", "x.store/labels.npy"],
        ["predict", "m.st", "x.npz", "-o", "hard.txt"],
        ["predict", "m.st", "x.npz", "-o", "other.store/labels.npy"],
        ["report", "m.st", "-o", "m.st"],
        ["report", "m.st", "x.store", "-o", "x.store/meta.json"],
        ["report", "m.st", "x.npz", "-o", "hard.npz"],
        ["report", "m.st", "-o", "x.store/report.html"],
        ["seed", "x.store", "-k", 3, "--centers", "x.store/centers.npz"],
        ["seed", "x.npz", "-k", 3, "--centers", "hard.npz"],
        ["convert", "x.store", "x.store/y.store"],
        ["convert", "x.npz", "x.store/y.store"],
        ["convert", "x.store", "x.store", "--overwrite"],
        ["convert", "x.store", "link.store", "--overwrite"],
        ["convert", "x.svm", "x.store", "--like", "x.store", "--overwrite"],
        ["convert", "x.svm", "x.store", "--like", "link.store", "--overwrite"],
        ["demo", "--save", "x.store/meta.json"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_nothing_is_written_over_an_input_or_into_a_store(refused, arguments):
    assert "hoose another" in refused(*arguments) or arguments[-1] == "x.npz"
