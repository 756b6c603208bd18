"""Projection onto the L1 ball against quadratic programming; its two ways against each other."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from sparsecluster import project_l1

VECTORS = arrays(
    np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)
RADII = st.floats(1e-3, 1e6)


def quadratic_program(v, radius):
    """The nearest point by a general solver: v = p - q with p, q >= 0 and sum(p + q) <= radius."""
    n = len(v)
    found = minimize(
        lambda pq: 0.5 * np.sum((pq[:n] - pq[n:] - v) ** 2),
        np.zeros(2 * n),
        jac=lambda pq: np.concatenate([pq[:n] - pq[n:] - v, v - pq[:n] + pq[n:]]),
        bounds=[(0, None)] * (2 * n),
        constraints={"type": "ineq", "fun": lambda pq: radius - pq.sum()},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success
    return found.x[:n] - found.x[n:]


@pytest.mark.parametrize("seed", range(20))
def test_exact_projection_equals_quadratic_programming(seed):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=rng.integers(1, 15))
    radius = rng.uniform(0.05, 1.2) * np.abs(v).sum()
    np.testing.assert_allclose(project_l1(v, radius), quadratic_program(v, radius), atol=1e-5)


@given(VECTORS, RADII)
@example(np.full(30, 7.0), 1.0)
@example(np.array([1e6, 1e-6]), 1e-3)
@example(np.full(35, 399457.67682263), 1.5)
def test_exact_projection_meets_the_conditions_of_an_optimum(v, radius):
    found = project_l1(v, radius)
    if np.abs(v).sum() <= radius:
        np.testing.assert_array_equal(found, v)
        return
    rounding = 1e-15 * len(v) * np.abs(v).max()
    assert np.abs(found).sum() == pytest.approx(radius, rel=1e-9, abs=rounding)
    # Everything that is left shrank by the same, and what vanished was not larger than that.
    shrunk = np.abs(v) - np.abs(found)
    left = found != 0
    theta = shrunk[left].max() if left.any() else 0
    np.testing.assert_allclose(shrunk[left], theta, atol=1e-9 * np.abs(v).max())
    assert np.all(np.abs(v[~left]) <= theta * (1 + 1e-9) + 1e-9 * np.abs(v).max())
    assert np.all(np.sign(found[left]) == np.sign(v[left]))


@given(VECTORS, RADII, st.sampled_from([0.001, 0.01, 0.3]))
def test_epsilon_projection_exceeds_the_radius_by_no_more_than_epsilon(v, radius, epsilon):
    found = project_l1(v, radius, method="epsilon", epsilon=epsilon)
    before, after = np.abs(v).sum(), np.abs(found).sum()
    assert after <= radius * (1 + epsilon) * (1 + 1e-9)
    assert after >= min(before, radius) * (1 - 1e-9) - 1e-9 * np.abs(v).max()
    assert np.all(np.abs(found) <= np.abs(v))


def test_epsilon_zero_ends_as_near_as_numbers_come():
    v = np.random.default_rng(0).normal(size=1000)
    exact, near = project_l1(v, 3.0), project_l1(v, 3.0, method="epsilon", epsilon=0)
    np.testing.assert_allclose(near, exact, atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "epsilon"])
def test_matrices_are_projected_row_by_row(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 30)) * (rng.random((7, 30)) < 0.4)
    rows = np.array([project_l1(row, 1.5, method=method) for row in X])
    np.testing.assert_array_equal(project_l1(X, 1.5, method=method), rows)
    sparse = project_l1(sp.csc_array(X), 1.5, method=method)
    # The sums of a sparse row are taken in other lanes.
    np.testing.assert_allclose(sparse.toarray(), rows, atol=1e-12)
    assert sparse.nnz == np.count_nonzero(sparse.toarray())


@pytest.mark.parametrize("method", ["exact", "epsilon"])
@pytest.mark.parametrize("v", [[], [0.0, 0.0], np.zeros((0, 3)), np.zeros((2, 0))], ids=str)
def test_nothing_to_project(v, method):
    np.testing.assert_array_equal(project_l1(v, 1.0, method=method), np.asarray(v, dtype=float))


def test_radius_zero_leaves_nothing():
    assert not project_l1([1.0, -2.0], 0.0).any()


def test_input_is_not_changed():
    v = np.array([3.0, 4.0])
    project_l1(v, 1.0)
    np.testing.assert_array_equal(v, [3.0, 4.0])


@pytest.mark.parametrize(
    ("v", "options", "message"),
    [
        ([1.0, np.nan], {}, "NaN"),
        (sp.csr_array([[np.inf, 0]]), {}, "NaN or infinity"),
        ([1.0], {"radius": -1}, "radius"),
        ([1.0], {"radius": np.inf}, "finite"),
        ([1.0], {"method": "exakt"}, "Did you mean 'exact'"),
        ([1.0], {"epsilon": -0.1}, "epsilon"),
        (np.zeros((2, 2, 2)), {}, "dimensions"),
    ],
)
def test_bad_input_is_refused(v, options, message):
    options = {"radius": 1.0} | options
    with pytest.raises(ValueError, match=message):
        project_l1(v, **options)
