"""Plans for stores: their numbers, measured speeds, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import convert, plan_fit
from sparsecluster.kmeans.planning import network_rate

SHAPE = {"rows": 1e6, "entries": 50, "columns": 1e5}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    X = sp.random_array((3000, 400), density=0.05, format="csr", dtype=np.float32, rng=0)
    sp.save_npz(folder / "x.npz", X)
    return convert(folder / "x.npz", folder / "x.store")


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("10Gbit", 1.25e9),
        ("10 Gbit/s", 1.25e9),
        ("25gbps", 3.125e9),
        ("100Mb/s", 1.25e7),
        ("1.25GB/s", 1.25e9),
        ("1e3", None),
        (2e9, 2e9),
    ],
)
def test_networks_are_read_in_bits_and_bytes(written, rate):
    if rate is None:
        with pytest.raises(ValueError, match="10Gbit"):
            network_rate(written)
    else:
        assert network_rate(written) == rate


def test_numbers_come_from_the_store_unless_given(store):
    plan = plan_fit(store.path, n_clusters=10)
    assert plan.workload.rows == 3000
    assert plan.workload.columns == 400
    assert plan.workload.entries == pytest.approx(store.meta["n_entries"] / 3000)
    assert not plan.speeds.measured
    larger = plan_fit(store, n_clusters=10, rows=10**7)
    assert larger.workload.rows == 10**7
    assert larger.workload.entries == plan.workload.entries


def test_centers_of_many_rows_have_all_columns(store):
    # 300 rows at random have nearly all of the 400 columns.
    assert plan_fit(store, n_clusters=10).workload.center_entries == pytest.approx(400, rel=0.02)
    given = plan_fit(store, n_clusters=10, center_entries=100)
    assert given.workload.center_entries == pytest.approx(100)


def test_calibration_measures_every_speed(store):
    speeds = plan_fit(store, n_clusters=10, calibrate=True).speeds
    assert speeds.measured
    assert speeds.scan > 0
    assert speeds.update > 0
    assert speeds.disk > 0
    assert 0 < speeds.later_share <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 2.5}, "n_clusters"),
        ({"machines": 0}, "machines"),
        ({"machines": True}, "machines"),
        ({"cores": -1}, "cores"),
        ({"network": "10 apples"}, "network"),
        ({"network": "0Gbit"}, "network"),
        ({"network": float("nan")}, "network"),
        ({"memory": "64 apples"}, "memory"),
        ({"memory": 0}, "memory"),
        ({"moved": 0}, "moved"),
        ({"moved": 1.5}, "moved"),
        ({"rows": -5}, "rows"),
        ({"rows": float("inf")}, "rows"),
        ({"n_clusters": 10**7}, "more than 1,000,000 rows"),
        ({"calibrate": True}, "store"),
        ({"rows": None}, "rows"),
    ],
)
def test_bad_numbers_and_units_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan_fit(**({"n_clusters": 10} | SHAPE | options))


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("text")
    with pytest.raises(ValueError, match="convert"):
        plan_fit(tmp_path / "x.txt", n_clusters=10)
    with pytest.raises(ValueError, match="not a store"):
        plan_fit(tmp_path / "missing", n_clusters=10)
