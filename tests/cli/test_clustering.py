"""Every parameter of the estimators is an option, and what cannot be is refused before reading."""

import json
from dataclasses import fields
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import ClusterMixin

import sparsecluster
from sparsecluster import BisectingKMeans, KMeans, MiniBatchKMeans, SphericalKMeans, load_model
from sparsecluster.cli import app
from sparsecluster.cli.clustering import ALL_ROWS, BATCHES, BY_HAND, IN_PYTHON, Clustering
from sparsecluster.cli.words import in_options

PUBLIC = [
    one
    for one in (getattr(sparsecluster, name) for name in sparsecluster.__all__)
    if isinstance(one, type) and issubclass(one, ClusterMixin) and hasattr(one, "transform")
    if one is not BisectingKMeans  # which is for Python alone
]  # whose clusters are centers, as those of `fit`
DECLARED = [(KMeans, ALL_ROWS), (MiniBatchKMeans, BATCHES)]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run fit in a folder with data; its exit status and what it wrote to standard error."""
    monkeypatch.chdir(tmp_path)
    X = sp.random_array((90, 20), density=0.4, format="csr", rng=1)
    X[:, [0]] = 1.0
    sp.save_npz("x.npz", X)

    def command(data, *arguments):
        status = 0
        try:
            app.meta(["fit", data, "-k", "3", "--seed", "0", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        return status, capfd.readouterr().err

    return command


@pytest.mark.parametrize("estimator", PUBLIC)
def test_every_parameter_is_an_option(estimator):
    assert {KMeans, SphericalKMeans, MiniBatchKMeans} <= set(PUBLIC)
    options = {field.name for field in fields(Clustering)}
    assert set(estimator().get_params()) - {*BY_HAND, *IN_PYTHON} <= options


@pytest.mark.parametrize(("estimator", "declared"), DECLARED)
def test_defaults_are_those_of_the_library(estimator, declared):
    parameters = estimator().get_params()
    for name, one in declared.items():
        assert (one.default, name) == (parameters[name], name)


@pytest.mark.parametrize(
    ("estimator", "name", "one"),
    [
        (estimator, *item)
        for estimator, declared in DECLARED
        for item in declared.items()
        if (estimator, item[0]) != (SphericalKMeans, "metric")  # it has but one
    ],
)
def test_choices_are_those_that_the_library_takes(estimator, name, one):
    literals = [kind for kind in (one.kind, *get_args(one.kind)) if get_origin(kind) is Literal]
    for choice in (choice for kind in literals for choice in get_args(kind)):
        estimator(**{name: choice}).check_parameters()
    if literals and one.kind in literals:
        with pytest.raises(ValueError, match="can be") as refused:
            estimator(**{name: "?"}).check_parameters()
        named = str(refused.value).split("can be ")[1].rstrip(".")
        assert set(named.split(", ")) == set(map(repr, get_args(one.kind)))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--n-init", "auto", "--init", "random"], KMeans(n_init="auto", init="random")),
        (["--n-init", 3], KMeans(n_init=3)),
        (
            ["--init", "mcmc", "--chain-length", 7],
            KMeans(init="mcmc", init_options={"chain_length": 7}),
        ),
        (
            ["--algorithm", "hamerly", "--refine", "first-variation", "--max-iter", 50, "--tol", 0],
            KMeans(algorithm="hamerly", refine="first-variation", max_iter=50, tol=0.0),
        ),
        (
            ["--metric", "cosine", "--zero-rows", "first", "--memory-limit", "1GB"],
            SphericalKMeans(zero_rows="first", memory_limit="1GB"),
        ),
        (
            ["--size-min", 28, "--size-max", 31],
            KMeans(size_min=28, size_max=31),
        ),
        (
            ["--minibatch", "--schedule", "sculley", "--batch-size", 20, "--max-no-improvement", 4],
            MiniBatchKMeans(schedule="sculley", batch_size=20, max_no_improvement=4),
        ),
        (
            [
                "--minibatch",
                "--schedule",
                "sculley",
                "--reassignment-ratio",
                0.1,
                "--init-size",
                40,
            ],
            MiniBatchKMeans(schedule="sculley", reassignment_ratio=0.1, init_size=40),
        ),
        (
            ["--minibatch", "--center-l1", 2, "--projection", "exact", "--center-nnz", 5],
            MiniBatchKMeans(center_l1=2.0, projection="exact", center_nnz=5),
        ),
        (
            ["--minibatch", "--metric", "cosine", "--center-l1", 2, "--projection-epsilon", 0.1],
            MiniBatchKMeans(metric="cosine", center_l1=2.0, projection_epsilon=0.1),
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_options_reach_the_estimator(run, arguments, expected):
    assert run("x.npz", *arguments, "--model", "m.st")[0] == 0
    expected.set_params(n_clusters=3, random_state=0)
    found = load_model("m.st")
    assert type(found) is type(expected)
    assert found.get_params() == expected.get_params()
    assert np.array_equal(found.labels_, expected.fit(sp.load_npz("x.npz")).labels_)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch-size", 100], "--batch-size needs --minibatch."),
        (["--center-l1", 2], "--center-l1 needs --minibatch."),
        (
            ["--minibatch", "--algorithm", "elkan"],
            "--algorithm cannot be combined with --minibatch.",
        ),
        (["--minibatch", "--checkpoint", "c"], "--checkpoint cannot be combined with --minibatch."),
        (["--minibatch", "--projection", "exact"], "--projection needs --center-l1."),
        (
            ["--minibatch", "--max-no-improvement", 3],
            "--max-no-improvement needs --schedule sculley.",
        ),
        (
            ["--minibatch", "--center-l1", 2, "--projection", "exact", "--projection-epsilon", 0.1],
            "--projection-epsilon has no effect with --projection exact.",
        ),
        (["--minibatch", "--size-max", 40], "--size-max cannot be combined with --minibatch."),
        (["--size-min", 0], "--size-min must be an integer of at least 1, got 0."),
        (["--size-min", 9, "--size-max", 8], "--size-min 9 is larger than --size-max 8."),
        (
            ["--size-max", 40, "--algorithm", "elkan"],
            "--algorithm elkan cannot be combined with --size-min or --size-max",
        ),
        (["--zero-rows", "first"], "--zero-rows needs --metric cosine."),
        (["--every", "5m"], "--checkpoint-every needs --checkpoint."),
        (["--checkpoint", "c", "--every", "often"], "--checkpoint-every must be a number of"),
        (
            ["--checkpoint", ""],
            "Invalid value for --checkpoint: it must be the path of a folder, got ''.",
        ),
        (["--init", "spkm++"], "--init spkm++ needs --metric cosine."),
        (["--init", "best"], "--init best is not known; it can be 'k-means++'"),
        (
            ["--init", "k-means||", "--chain-length", 3],
            "--chain-length is not an option of --init k-means||, which takes --oversampling, "
            "--rounds.",
        ),
        (
            ["--init", "missing.npz", "--rounds", 3],
            "--rounds has no effect with --init missing.npz.",
        ),
        (["--init", "mcmc", "--chain-length", 0], "--chain-length must be an integer of at least"),
        (["--n-init", 0], "--n-init must be an integer of at least 1, got 0."),
        (["--n-init", "many"], "--n-init"),
        (["--tol", -1], "--tol must be a number of at least 0"),
        (["--max-iter", 0], "--max-iter must be an integer of at least 1, got 0."),
        (["--memory-limit", "lots"], "--memory-limit must be a positive number of bytes"),
        (["--minibatch", "--center-nnz", 0], "--center-nnz must be an integer"),
        (["--minibatch", "--metric", "cosine", "--center-l1", 0.5], "--center-l1 must be positive"),
        (["--minibatch", "--reassignment-ratio", 2, "--schedule", "sculley"], "must be at most 1"),
        (["--seed", -1], "--seed"),
        (["--threads", 0], "--threads"),
        (["--min-df", -1], "--min-df must"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_before_anything_is_read(run, arguments, said):
    status, err = run("missing.npz", *arguments)
    assert status == 2
    assert len(err.splitlines()) == 1
    assert said in err


def test_a_warning_speaks_of_options(run):
    _, err = run("x.npz", "--max-iter", 1, "--tol", 0)
    assert "did not converge in --max-iter 1 iteration:" in err
    assert "Raise --max-iter or --tol." in err


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("min_df=2, drop_empty=False (of x)", "--min-df 2, no --drop-empty (of x)"),
        ("zero_rows='first' is not known", "--zero-rows first is not known"),
        ("n_clusters must be 1.", "--clusters must be 1."),
        ("transpose, layer: no effect on a.npz", "--transpose, --layer: no effect on a.npz"),
        ("The format of x and its metric.", "The format of x and its metric."),
        (
            "/data/min_df.txt, min_df/x and n_init-3.npz",
            "/data/min_df.txt, min_df/x and n_init-3.npz",
        ),
        ("There is no column 'min_df'.", "There is no column 'min_df'."),
    ],
)
def test_parameters_become_options_and_all_else_stays(message, words):
    assert in_options(message) == words


def test_inspect_says_how_many_rows_a_stream_waits_for(run, tmp_path, capfd):
    estimator = MiniBatchKMeans(n_clusters=9)
    with pytest.warns(UserWarning, match="no centers yet"):
        estimator.partial_fit(np.eye(4))
    estimator.save("m.st")
    with pytest.raises(SystemExit) as ended:
        app.meta(["inspect", "m.st"])
    assert ended.value.code == 2
    assert "4 rows are kept" in capfd.readouterr().err


def test_one_cluster_is_not_plural(run, capfd):
    app.meta(["fit", "x.npz", "-k", "1", "--max-iter", "1"])
    assert "1 cluster of 90 rows: 1 iteration, cost" in capfd.readouterr().out
    app.meta(["fit", "x.npz", "-k", "1", "--json"])
    assert json.loads(capfd.readouterr().out)["clusters"] == 1
