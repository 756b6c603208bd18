"""Bad input gets an error that names the problem and the place, and never a crash."""

import os
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from support.data import csr
from support.processes import HANGS

from sparsecluster import (
    BisectingKMeans,
    KMeans,
    MiniBatchKMeans,
    Prepare,
    choose_k,
    kmeans_plusplus,
    load_model,
    metalabels,
    read,
    seed_centers,
)

X = np.arange(12.0).reshape(4, 3)

MAKERS = {"sparse": csr, "dense": np.array, "csc": sp.csc_array, "coo": sp.coo_array}


def fit(matrix, n_clusters=2, *, sample_weight=None, **options):
    return KMeans(n_clusters, random_state=0, **options).fit(matrix, sample_weight=sample_weight)


def never(record):
    raise AssertionError("work was done before the input was refused")


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "inf")]
)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_value_that_is_not_finite_is_named_with_its_place(make, value, kind, dtype):
    bad = X.astype(dtype)
    bad[2, 1] = value
    with pytest.raises(ValueError, match=rf"X contains {kind}.*row 2, column 1"):
        fit(make(bad))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_fitted_model_refuses_nan(method):
    bad = X.copy()
    bad[3, 0] = np.nan
    with pytest.raises(ValueError, match="row 3, column 0"):
        getattr(fit(X), method)(csr(bad))


def test_first_bad_row_of_many_is_named():
    bad = csr(np.ones((5000, 2)))
    bad.data[[2 * 4321, 2 * 1234 + 1]] = np.nan
    with pytest.raises(ValueError, match="row 1234, column 1"):
        fit(bad)


def test_nan_in_an_unsorted_row_is_named():
    bad = sp.csr_array(([1.0, np.nan, 3.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    with pytest.raises(ValueError, match=r"NaN.*row 0, column 0"):
        fit(bad)


@pytest.mark.parametrize("value", [1e160, -1e160, np.finfo(np.float64).max])
def test_value_too_large_to_square_is_named_with_its_row(value):
    bad = X.copy()
    bad[1, 2] = value
    with pytest.raises(ValueError, match=r"too large.*row 1"):
        fit(bad)


@pytest.mark.parametrize("bad", [[["a", "b"]] * 4, np.array([[1, "x"]] * 4, dtype=object)])
def test_text_is_refused(bad):
    with pytest.raises(ValueError, match="could not convert string"):
        fit(bad)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_complex_numbers_are_refused(make):
    with pytest.raises(ValueError, match="Complex data not supported"):
        fit(make(X * 1j))


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.zeros, sp.csr_array], ids=["dense", "sparse"])
def test_matrix_without_rows_is_refused(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fit(make((0, 3)))


@pytest.mark.parametrize("make", [np.zeros, sp.csr_array], ids=["dense", "sparse"])
def test_matrix_without_columns_is_refused(make):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        fit(make((3, 0)))


@pytest.mark.parametrize(
    "bad",
    [np.arange(3.0), np.zeros((2, 2, 2)), sp.coo_array([1.0, 2.0, 3.0]), sp.csr_array([1.0, 2.0])],
    ids=["1-d", "3-d", "1-d coo", "1-d csr"],
)
def test_matrix_of_other_than_two_dimensions_is_refused(bad):
    with pytest.raises(ValueError, match=r"(?i)expected 2D|dim"):
        fit(bad)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_wrong_number_of_features_is_named(method, make):
    with pytest.raises(ValueError, match="X has 5 features, but KMeans is expecting 3"):
        getattr(fit(X), method)(make(np.ones((2, 5))))


def test_more_clusters_than_rows_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"n_samples=4.*n_clusters=5"):
        fit(X, 5)


def test_more_seeds_than_rows_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"n_samples=4.*n_clusters=5"):
        kmeans_plusplus(X, 5)


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 2.0, 2.5, "8", None, True, [3], np.nan])
@pytest.mark.parametrize("name", ["n_clusters", "n_init", "max_iter"])
def test_parameter_that_is_no_positive_integer_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        KMeans(**{name: value}).fit(X)


@pytest.mark.parametrize("value", [0, -1, 2.5, "8", None])
def test_number_of_seeds_that_is_no_positive_integer_is_named(value):
    with pytest.raises(ValueError, match="n_clusters must be an integer"):
        kmeans_plusplus(X, value)


@pytest.mark.parametrize("value", [0, -1, 2.5, "8"])
def test_number_of_trials_that_is_no_positive_integer_is_named(value):
    with pytest.raises(ValueError, match="n_local_trials must be an integer"):
        kmeans_plusplus(X, 2, n_local_trials=value)


@pytest.mark.parametrize("value", [-1e-9, "small", None, np.nan, [0.1]])
def test_tolerance_that_is_no_number_from_zero_is_named(value):
    with pytest.raises(ValueError, match="tol must be a number"):
        fit(X, tol=value)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("elkn", "elkan"), ("Lloyd", "lloyd"), ("hammerly", "hamerly"), ("automatic", "auto")],
)
def test_misspelt_algorithm_gets_the_nearest_name(value, nearest):
    with pytest.raises(ValueError, match=f"algorithm='{value}'.*Did you mean '{nearest}'"):
        fit(X, algorithm=value)


@pytest.mark.parametrize("value", ["full", None, 3])
def test_unknown_algorithm_gets_the_known_names(value):
    with pytest.raises(
        ValueError, match=r"algorithm=.*'auto', 'lloyd', 'elkan', 'elkan-rows', 'hamerly'"
    ):
        fit(X, algorithm=value)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("kmeans++", "k-means++"), ("k-means", "k-means++"), ("Random", "random"), ("rand", "random")],
)
def test_misspelt_init_gets_the_nearest_name(value, nearest):
    with pytest.raises(ValueError, match=r"init=.*Did you mean") as caught:
        fit(X, init=value)
    assert nearest in str(caught.value).split("Did you mean")[1]


@pytest.mark.parametrize("value", [None, 3, np.ones(3), np.ones((2, 4)), np.ones((3, 3)), csr(X)])
def test_centers_of_the_wrong_shape_are_named_with_both_shapes(value):
    with pytest.raises(ValueError, match=r"initial centers.* must have the shape \(2, 3\)"):
        fit(X, init=value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_centers_that_are_not_finite_are_refused(make, value):
    with pytest.raises(ValueError, match="init contains NaN or infinity"):
        fit(X, init=make(np.full((2, 3), value)))


TINY = np.random.default_rng(0).random((60, 4))
FITS = {
    "KMeans": lambda X: KMeans(3, random_state=0).fit(X),
    "MiniBatchKMeans": lambda X: MiniBatchKMeans(3, random_state=0).fit(X),
    "BisectingKMeans": lambda X: BisectingKMeans(3, random_state=0).fit(X),
    "choose_k": lambda X: choose_k(X, [2, 3], random_state=0),
    "seed_centers": lambda X: seed_centers(X, 3, random_state=0),
}


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
@pytest.mark.parametrize("scale", [1e-150, 1e-165, 1e-300])
@pytest.mark.parametrize("name", FITS)
def test_values_too_small_to_square_are_refused(name, scale, make):
    with pytest.raises(ValueError, match=r"too small to square.*1e-140.*Scale the values first"):
        FITS[name](make(TINY * scale))


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_tiny_values_beside_others_and_zeros_alone_are_taken(make):
    mixed = TINY.copy()
    mixed[::2] *= 1e-200
    assert fit(make(mixed), 3).n_clusters_ == 3
    with pytest.warns(ConvergenceWarning, match="distinct"):
        assert fit(make(np.zeros((5, 2)))).n_clusters_ == 1


def test_small_values_that_can_be_squared_give_the_same_labels():
    small = np.ldexp(TINY, -440)
    assert np.array_equal(fit(small, 3).labels_, fit(TINY, 3).labels_)


def test_tiny_rows_are_taken_by_cosine_and_by_predict():
    assert fit(TINY * 1e-165, 3, metric="cosine").n_clusters_ == 3
    model = fit(TINY, 3)
    assert np.array_equal(model.predict(TINY * 1e-165), model.predict(TINY * 0))


def test_centers_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match="init"):
        fit(X, init=np.full((2, 3), 1e200))


@pytest.mark.parametrize("value", [[["a", "b", "c"]] * 2, np.full((2, 3), 1j)])
def test_centers_that_are_no_numbers_are_refused(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="init"):
            fit(X, init=value)


def test_callable_that_returns_nonsense_is_refused():
    with pytest.raises(ValueError, match="init"):
        fit(X, init=lambda X, n_clusters, random_state: None)


@pytest.mark.parametrize("value", [0, -2, 1.5, "2", True, 2**40])
def test_number_of_threads_that_cannot_be_is_named(value):
    with pytest.raises(ValueError, match="n_threads"):
        fit(X, n_threads=value)


@pytest.mark.parametrize("value", [0, -5, "much", "2 XB", "0GB", "1..2GB", "", np.nan, [1]])
def test_memory_limit_that_cannot_be_is_named(value):
    with pytest.raises(ValueError, match="memory_limit"):
        fit(X, memory_limit=value)


@pytest.mark.parametrize("value", ["2GB", "500 MiB", "1.5g", "100000", 10**9, 1e9, np.int64(10**9)])
def test_memory_limit_may_be_bytes_or_a_size(value):
    assert fit(X, memory_limit=value).n_clusters_ == 2


# --- weights -------------------------------------------------------------------------------------


def test_number_of_weights_must_be_that_of_rows():
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(4,\)"):
        fit(X, sample_weight=[1, 2, 3])


@pytest.mark.parametrize(
    ("value", "named"), [(np.nan, "NaN"), (np.inf, "infinity"), (-1, "egative")]
)
def test_weights_must_be_finite_and_not_negative(value, named):
    with pytest.raises(ValueError, match=rf"(?s)sample_weight.*{named}|{named}.*sample_weight"):
        fit(X, sample_weight=[1, 1, value, 1])


def test_weights_must_not_all_be_zero():
    with pytest.raises(ValueError, match=r"(?i)sample.weights? .*zero"):
        fit(X, sample_weight=[0, 0, 0, 0])


@pytest.mark.parametrize("init", ["k-means++", "random", X[:2]], ids=["greedy", "random", "given"])
def test_weights_whose_sum_is_infinite_are_refused(init):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="sample_weight"):
            fit(X, init=init, sample_weight=[1e308] * 4)


def test_score_refuses_bad_weights():
    with pytest.raises(ValueError, match="sample_weight"):
        fit(X).score(X, sample_weight=[1, 2])


# --- inconsistent sparse matrices ----------------------------------------------------------------


def broken(layout="csr", **parts):
    """A good matrix with some of its arrays replaced behind scipy's back."""
    matrix = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5], [0, 0, 6]])).asformat(layout)
    for name, value in parts.items():
        kind = np.float64 if name == "data" else np.int32
        setattr(matrix, name, np.array(value, dtype=kind))
    return matrix


BROKEN = {
    "csr column too large": (broken(indices=[0, 2, 1, 0, 2, 7]), "csr.*row 3 has a column"),
    "csr column negative": (broken(indices=[0, 2, 1, -1, 2, 2]), "csr.*row 2 has a column"),
    "csr column far out": (broken(indices=[0, 2, 2**31 - 1, 0, 2, 2]), "csr.*row 1 has a column"),
    "csr indptr decreases": (broken(indptr=[0, 2, 1, 5, 6]), "csr.*indptr decreases at row 1"),
    "csr indptr negative": (broken(indptr=[0, -2, 3, 5, 6]), "csr.*indptr decreases at row 0"),
    "csr indptr starts late": (broken(indptr=[1, 2, 3, 5, 6]), "csr"),
    "csr indptr ends late": (broken(indptr=[0, 2, 3, 5, 9]), "csr"),
    "csr indptr leaps out": (broken(indptr=[0, 2, 10**6, 5, 6]), "csr"),
    "csr indptr too short": (broken(indptr=[0, 2, 3, 6]), "csr"),
    "csr indptr too long": (broken(indptr=[0, 2, 3, 5, 6, 6]), "csr"),
    "csr fewer values": (broken(data=[1, 2, 3]), "csr"),
    "csr fewer columns": (broken(indices=[0, 2, 1]), "csr"),
    "csc row too large": (broken("csc", indices=[0, 2, 1, 0, 2, 9]), "csc"),
    "csc row negative": (broken("csc", indices=[0, 2, 1, 0, -5, 3]), "csc"),
    "csc indptr decreases": (broken("csc", indptr=[0, 3, 2, 6]), "csc"),
    "csc indptr ends late": (broken("csc", indptr=[0, 2, 3, 60]), "csc"),
    "coo row too large": (broken("coo", row=[0, 0, 1, 2, 2, 9]), "coo"),
    "coo row negative": (broken("coo", row=[0, 0, 1, 2, -2, 3]), "coo"),
    "coo column too large": (broken("coo", col=[0, 2, 1, 0, 2, 3]), "coo"),
    "coo column negative": (broken("coo", col=[0, 2, 1, 0, 2, -1]), "coo"),
    "coo fewer rows": (broken("coo", row=[0, 0, 1]), "coo"),
    "bsr column too large": (broken("bsr", indices=[0, 2, 1, 0, 2, 7]), "bsr"),
    "bsr indptr decreases": (broken("bsr", indptr=[0, 2, 1, 5, 6]), "bsr"),
}


def outcome(call):
    """What a call ends with, seen from outside of its process: an error, or a signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
            message = "accepted"
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        message = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else message


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_fit(matrix, named):
    ended = outcome(lambda: fit(matrix, n_threads=1))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_predict(matrix, named):
    km = fit(X, n_threads=1)
    ended = outcome(lambda: km.predict(matrix))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize(("matrix", "named"), BROKEN.values(), ids=BROKEN)
def test_inconsistent_matrix_is_refused_by_seeding(matrix, named):
    ended = outcome(lambda: kmeans_plusplus(matrix, 2, n_threads=1))
    assert re.match(rf"ValueError: X is not a consistent {named}", ended, re.IGNORECASE), ended


@pytest.mark.parametrize("matrix", [matrix for matrix, _ in BROKEN.values()], ids=BROKEN)
def test_inconsistent_matrix_is_refused_as_centers(matrix):
    ended = outcome(lambda: fit(X, 4, init=matrix, n_threads=1))
    assert re.match("ValueError: init is not a consistent", ended), ended


@pytest.mark.parametrize("number", [np.float32, np.int64])
def test_broken_matrix_of_another_number_type_is_refused(number):
    matrix = broken(indices=[0, 2, 1, 0, 2, 7])
    matrix.data = matrix.data.astype(number)
    with pytest.raises(ValueError, match="row 3"):
        fit(matrix)


def test_wide_indices_out_of_range_are_refused():
    matrix = csr(X, index=np.int64)
    matrix.indices[4] = 2**40
    with pytest.raises(ValueError, match="row 1"):
        fit(matrix)


# --- before any work -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "fast"},
        {"init": "kmeans"},
        {"tol": -1},
        {"n_threads": 0},
        {"memory_limit": "much"},
        {"init": np.ones((3, 3))},
        {"init": np.full((2, 3), np.nan)},
    ],
    ids=str,
)
def test_bad_option_is_refused_before_any_work(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        fit(X, callback=never, **options)


# --- in a process of its own ---------------------------------------------------------------------

NASTY = {
    "all kinds of broken CSR arrays": """
        rng = np.random.default_rng(0)
        for trial in range(150):
            M = sp.random(30, 20, 0.2, format="csr", random_state=trial, dtype=np.float64)
            part = rng.choice(["indices", "indptr", "data"])
            array = getattr(M, part)
            bad = [np.nan, np.inf, 1e300] if part == "data" else [-1, 10**9, -(2**31), 2**31 - 1]
            array[rng.integers(len(array))] = rng.choice(bad)
            for call in (KMeans(3).fit, km.predict, partial(kmeans_plusplus, n_clusters=3)):
                try:
                    call(M)
                    raise SystemExit(f"accepted: {trial} {part}")
                except ValueError:
                    pass
    """,
    "many threads": "KMeans(3, n_threads=300).fit(np.random.default_rng(0).random((5000, 4)))",
    "a change of the matrix in the callback": """
        X = sp.random(200, 50, 0.2, format="csr", random_state=0)
        def vandal(record):
            X.data[:] = np.nan
        try:
            KMeans(5, callback=vandal, max_iter=5).fit(X)
        except ValueError:
            pass
    """,
    "an unknown SIMD level": """
        import os
        os.environ["SPARSECLUSTER_SIMD"] = "sse9"
        try:
            KMeans(2).fit(np.eye(4))
            raise SystemExit("accepted")
        except RuntimeError as error:
            assert "sse9" in str(error) and "avx2" in str(error), error
    """,
    "fits in forked processes": """
        import multiprocessing as mp
        KMeans(3, n_threads=2).fit(np.random.default_rng(0).random((5000, 4)))
        with mp.get_context("fork").Pool(2) as pool:
            X = np.random.default_rng(0).random((2000, 4))
            labels = pool.map(KMeans(3, n_threads=2, random_state=0).fit_predict, [X] * 4)
        assert all((one == labels[0]).all() for one in labels)
    """,
    "fits in threads at the same time": """
        from concurrent.futures import ThreadPoolExecutor
        X = np.random.default_rng(0).random((3000, 6))
        def labels(seed):
            return KMeans(8, n_threads=2, random_state=0).fit_predict(X)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(labels, range(8)))
        assert all((one == found[0]).all() for one in found)
    """,
}


@pytest.mark.parametrize("code", NASTY.values(), ids=NASTY)
def test_process_survives(code):
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from functools import partial\n"
        "import numpy as np, scipy.sparse as sp\n"
        "from sparsecluster import KMeans, kmeans_plusplus\n"
        "km = KMeans(3, random_state=0).fit(np.random.default_rng(0).random((9, 20)))\n"
    )
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    program += "\n".join(line[indent:] for line in lines)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr[-2000:]


# --- what other libraries would misread ----------------------------------------------------------


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.uint64, np.uint32, np.int16])
@pytest.mark.parametrize("key", ["indptr", "indices"])
def test_indices_of_any_integer_type_are_taken(format, dtype, key, recwarn):
    odd = sp.csr_array(X).asformat(format)
    setattr(odd, key, getattr(odd, key).astype(dtype))
    assert fit(odd).labels_.tolist() == fit(X).labels_.tolist()
    assert Prepare(norm="l2").fit_transform(odd).shape == X.shape
    assert seed_centers(odd, 2, random_state=0)[0].shape == (2, X.shape[1])
    assert not recwarn.list


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_an_indptr_that_wrapped_around_is_refused(format):
    many = sp.random_array((300, 50), density=0.2, format=format, rng=np.random.default_rng(0))
    many.indptr = many.indptr.astype(np.uint8)
    with pytest.raises(ValueError, match="consistent"):
        fit(many)


def test_indices_that_are_no_integers_are_refused():
    odd = sp.csr_array(X)
    odd.indices = odd.indices.astype(np.float64)
    with pytest.raises(ValueError, match="The indices of X are of float64"):
        fit(odd)


@pytest.mark.parametrize(
    "use",
    [
        fit,
        lambda X: MiniBatchKMeans(2, random_state=0).fit(X),
        lambda X: seed_centers(X, 2, random_state=0),
        lambda X: Prepare(norm="l2").fit(X),
        lambda X: metalabels(X, [[0]] * len(X)),
    ],
)
def test_masked_entries_are_refused(use):
    plain = np.asarray(sp.csr_array(X).toarray())
    use(np.ma.masked_array(plain, mask=np.zeros(plain.shape, dtype=bool)))
    with pytest.raises(ValueError, match=r"masked.*filled\(0\)"):
        use(np.ma.masked_array(plain, mask=plain > 0))


@pytest.mark.parametrize("weight", [1e-300, 1e-310, 5e-324])
def test_weights_too_small_for_sums_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight has values below 1e-100"):
        fit(X, sample_weight=np.full(len(X), weight))


# --- magnitudes far apart ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["auto", "lloyd", "hamerly", "elkan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_huge_value_leaves_the_labels_of_the_other_rows_exact(algorithm, dtype):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 10)).astype(dtype)
    values[7, 3] = 1e19
    start = values[[7, 0, 1, 2]].astype(np.float64)
    km = KMeans(4, init=start, algorithm=algorithm).fit(values)
    exact, centers = values.astype(np.longdouble), sp.csr_array(km.cluster_centers_).toarray()
    distance2 = ((exact[:, None] - centers[None]) ** 2).sum(axis=2)
    assert km.labels_.tolist() == distance2.argmin(axis=1).tolist()


def test_far_rows_are_decided_by_the_columns_in_which_centers_differ():
    km = KMeans(2, random_state=0).fit([[1e8, 0], [0, 1e-3]])
    km.cluster_centers_ = np.array([[0, 1e-3], [0, 0]])
    assert km.predict([[1e8, 0]]).tolist() == [1]


def test_masked_weights_and_masked_values_of_sparse_rows_are_refused():
    with pytest.raises(ValueError, match=r"sample_weight is a masked array"):
        fit(X, sample_weight=np.ma.masked_array(np.ones(4), mask=[0, 1, 0, 0]))
    masked = sp.csr_array(X)
    masked.data = np.ma.masked_array(masked.data, mask=masked.data > 5)
    with pytest.raises(ValueError, match="masked"):
        fit(masked)


# --- parameters that change after a fit ----------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_a_metric_that_changes_after_the_fit_changes_no_prediction(kind, tmp_path):
    rows = np.random.default_rng(0).random((60, 5)) * np.arange(1, 61)[:, None]
    km = kind(4, random_state=0).fit(rows)
    labels, distances = km.predict(rows), km.transform(rows)
    km.set_params(metric="cosine")
    assert km.predict(rows).tolist() == labels.tolist()
    np.testing.assert_array_equal(km.transform(rows), distances)
    km.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(rows).tolist() == labels.tolist()


def test_an_estimator_is_what_it_was_until_a_fit_has_succeeded():
    first, second = np.eye(6)[:, :4] + 1, np.eye(6)
    found = []

    def callback(record):
        found.append(km.predict(first).tolist())

    km = KMeans(2, random_state=0).fit(first)
    before = km.labels_.tolist()
    km.set_params(callback=callback).fit(second)
    assert found
    assert all(labels == before for labels in found)
    assert km.n_features_in_ == 6


def test_rows_can_be_pickled(tmp_path):
    path = tmp_path / "x.npz"
    sp.save_npz(path, sp.csr_matrix(X))
    rows = read(path)
    again = pickle.loads(pickle.dumps(rows))
    assert again.shape == rows.shape
    assert fit(again).labels_.tolist() == fit(rows).labels_.tolist()
