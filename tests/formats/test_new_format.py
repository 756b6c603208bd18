"""A new format costs a file and an entry: `read`, `convert`, `fit` and the command line take it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparsecluster import KMeans, ReadError, convert, load_model, read
from sparsecluster.formats.registry import FORMATS, Format

ENTRY = Format("support.basket_format", "BasketSource", (".basket",), (b"#basket",))
DENSE = [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 3], [0, 0, 0, 1]]
LINES = [[0, 0, 1], [0, 1], [2, 3, 3, 3], [3]]
COMMAND = """
import sys
from sparsecluster.formats.registry import FORMATS, Format
FORMATS["basket"] = Format("support.basket_format", "BasketSource", (".basket",), (b"#basket",))
from sparsecluster.cli import main
main()
"""


@pytest.fixture(autouse=True)
def entry(monkeypatch):
    monkeypatch.setitem(FORMATS, "basket", ENTRY)


def basket(path, separator=" "):
    lines = [separator.join(map(str, line)) for line in LINES]
    path.write_text("\n".join(["#basket", *lines]))
    return path


@pytest.mark.parametrize("name", ["x.basket", "known-by-its-first-bytes"])
def test_it_is_recognized_and_read(tmp_path, name):
    rows = read(basket(tmp_path / name))
    assert rows.recipe.format == "basket"
    assert rows.matrix.toarray().tolist() == DENSE


def test_it_has_its_own_option(tmp_path):
    path = basket(tmp_path / "x.basket", ";")
    assert read(path, separator=";").recipe.described() == {"options": {"separator": ";"}}
    with pytest.raises(ReadError, match="line 2"):
        read(path)
    with pytest.raises(ValueError, match="transpose: no effect"):
        read(path, transpose=True)
    with pytest.raises(ValueError, match="Did you mean 'separator'"):
        read(path, seperator=";")


def test_it_is_converted(tmp_path):
    path = basket(tmp_path / "x.basket", ";")
    rows = convert(path, tmp_path / "x.store", separator=";")
    assert rows.matrix.toarray().tolist() == DENSE
    with pytest.raises(ReadError, match="a store is a folder"):
        convert(path, tmp_path / "y.basket", separator=";")


def test_it_is_fitted_and_models_know_its_option(tmp_path):
    plain = KMeans(2, random_state=0).fit(basket(tmp_path / "x.basket"))
    path = basket(tmp_path / "y.basket", ";")
    model = KMeans(2, random_state=0).fit(read(path, separator=";"))
    model.save(tmp_path / "m.st")
    for one in (model, load_model(tmp_path / "m.st")):
        assert np.array_equal(one.predict(path), plain.labels_)


def test_the_command_line_has_its_option(tmp_path):
    path = basket(tmp_path / "x.basket", ";")

    def run(*arguments):
        command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
        environment = {"PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path])}
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert "For basket: what stands between two products." in " ".join(
        run("inspect", "--help").replace("│", " ").split()
    )
    fitted = json.loads(
        run("fit", path, "-k", 2, "--separator", ";", "--json", "--model", tmp_path / "m.st")
    )
    assert (fitted["format"], fitted["rows"], sum(fitted["sizes"])) == ("basket", 4, 4)
    inspected = json.loads(run("inspect", tmp_path / "m.st", "--json"))
    assert inspected["recipe"] == {"options": {"separator": ";"}}
