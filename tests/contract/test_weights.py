"""A weight counts as copies of its row do."""

import numpy as np
from support.compare import same
from support.data import csr, dense
from support.estimators import ROWS, SPARSE, every_estimator, fitted, quietly

WEIGHTS = np.random.default_rng(0).integers(1, 4, size=len(ROWS))


@every_estimator("weights")
def test_unit_weights_give_what_no_weights_give(case):
    weighted = quietly(case.make().fit, SPARSE, sample_weight=np.ones(len(ROWS)))
    assert same(fitted(weighted), fitted(quietly(case.make().fit, SPARSE)))


@every_estimator("weights", "partial_fit")
def test_batches_of_unit_weights_give_what_no_weights_give(case):
    weighted, plain = case.make(), case.make()
    for begin in range(0, len(ROWS), 40):
        batch = SPARSE[begin : begin + 40]
        quietly(weighted.partial_fit, batch, sample_weight=np.ones(batch.shape[0]))
        quietly(plain.partial_fit, batch)
        assert same(fitted(weighted), fitted(plain))


@every_estimator("weights", where=lambda case: case.entry.any_order)
def test_whole_weights_give_what_repeated_rows_give(case):
    weighted, repeated = (case.make(**case.entry.any_order) for _ in range(2))
    quietly(weighted.fit, SPARSE, sample_weight=WEIGHTS)
    quietly(repeated.fit, csr(np.repeat(ROWS, WEIGHTS, axis=0), np.float32))
    assert same(np.repeat(weighted.labels_, WEIGHTS), repeated.labels_)
    np.testing.assert_allclose(
        dense(weighted.cluster_centers_), dense(repeated.cluster_centers_), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(weighted.inertia_, repeated.inertia_, rtol=1e-9)


@every_estimator("weights", where=lambda case: case.entry.any_order)
def test_rows_without_weight_do_not_count(case):
    weights = np.where(np.arange(len(ROWS)) % 4 == 3, 0.0, 1.0)
    present = weights > 0
    some, all_of_them = (case.make(**case.entry.any_order) for _ in range(2))
    quietly(some.fit, SPARSE[np.flatnonzero(present)])
    quietly(all_of_them.fit, SPARSE, sample_weight=weights)
    assert same(all_of_them.labels_[present], some.labels_)
    np.testing.assert_allclose(
        dense(all_of_them.cluster_centers_), dense(some.cluster_centers_), rtol=1e-9, atol=1e-12
    )
