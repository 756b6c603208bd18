"""`fit --dask` and `fit --workers`: what is refused, in terms of the options."""

import numpy as np
import pytest

from sparsecluster import convert
from sparsecluster.cli import app
from sparsecluster.run import dask as run_dask


@pytest.fixture
def refused(tmp_path, monkeypatch, capfd):
    """Run a command that fails in a folder with data: what it says."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((30, 4)))
    convert("rows.npy", "rows.store")

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            app.meta(list(arguments))
        assert ended.value.code
        return " ".join(capfd.readouterr().err.split())

    return command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rows.npy", "--workers", "2"), "--workers needs a store"),
        (("rows.npy", "--dask", "tcp://127.0.0.1:1"), "--dask needs a store"),
        (("rows.store", "--workers", "2", "--dask", "tcp://x:1"), "cannot be combined with"),
        (("rows.store", "--workers", "2", "--minibatch"), "cannot be combined with --minibatch"),
        (("rows.store", "--workers", "0"), "1"),
    ],
)
def test_what_cannot_be_is_refused(refused, arguments, message):
    assert message in refused("fit", *arguments, "-k", "2")


def test_no_scheduler_is_a_line(refused, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(run_dask, "CONNECT_SECONDS", 1.0)
    said = refused("fit", "rows.store", "-k", "2", "--dask", "tcp://127.0.0.1:1")
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in said
    assert "Traceback" not in said
