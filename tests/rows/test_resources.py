"""How many threads a call takes where the user does not say."""

import os

import joblib
import pytest

from sparsecluster.rows.resources import effective_n_threads


def test_threads_are_those_that_joblib_counts(monkeypatch):
    # joblib heeds quotas of control groups, which a test cannot set.
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    assert effective_n_threads(None) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a settable affinity")
def test_affinity_limits_the_threads():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert effective_n_threads(None) == 1
    finally:
        os.sched_setaffinity(0, before)


def test_threads_asked_for_are_taken_whatever_the_machine_has():
    assert effective_n_threads(64) == 64
