"""`sparsecluster plan`."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import convert
from sparsecluster.cli import app

SHAPE = ["--rows", "1e8", "--entries", "100", "--columns", "1e6"]


def run(*arguments):
    app.meta(["plan", *map(str, arguments)])


@pytest.fixture
def store(tmp_path):
    X = sp.random_array((2000, 300), density=0.05, format="csr", dtype=np.float32, rng=0)
    sp.save_npz(tmp_path / "x.npz", X)
    return convert(tmp_path / "x.npz", tmp_path / "x.store").path


def test_plan_of_a_store_tells_what_limits(store, capsys):
    run(store, "--clusters", 20, "--machines", 4, "--network", "10Gbit", "--memory", "64GB")
    out = capsys.readouterr().out
    assert "2,000 rows" in out
    assert "what limits" in out
    assert "assumed" in out


def test_calibrated_plan_says_that_it_measured(store, capsys):
    run(store, "--clusters", 20, "--calibrate")
    assert "measured here" in capsys.readouterr().out


def test_json_holds_the_plan(capsys):
    run(*SHAPE, "-k", 100, "--machines", 8, "--cores", 4, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["machines"]["number"] == 8
    assert found["rows"] == 10**8
    parts = found["iterations"]["later"]
    assert parts["seconds"] >= parts["scan"]
    assert 8 in [one["machines"] for one in found["choices"]]


def test_rows_from_disk_are_said(capsys):
    run(*SHAPE, "-k", 10, "--memory", "10GB")
    out = capsys.readouterr().out
    assert "read from disk" in out
    assert "stay in memory from" in out


def test_centers_that_do_not_fit_are_said(capsys):
    run(*SHAPE, "-k", 100_000, "--memory", "1GB", "--machines", 4)
    assert "not possible" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", 10, "--network", "fast", *SHAPE], "--network must be"),
        (["-k", 10, "--memory", "much", *SHAPE], "--memory must be"),
        (["-k", 10, "--machines", 0, *SHAPE], "--machines must be"),
        (["-k", 10], "--rows, --entries, --columns"),
        (["-k", 10, *SHAPE[2:], "--rows", -3], "--rows must be"),
        (["missing.store", "-k", 10], "not a store"),
        (SHAPE, "--clusters"),
    ],
)
def test_mistakes_end_in_one_line(options, message, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*options)
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
