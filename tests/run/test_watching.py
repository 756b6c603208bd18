"""Watching a fit: records that show centers and labels, seeding, steps, how a fit ended."""

import copy
import logging
import pickle
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from support.data import csr, dense, problem
from support.oracle import lloyd, nearest

from sparsecluster import (
    IterationRecord,
    KMeans,
    MiniBatchKMeans,
    SphericalKMeans,
    kmeans_plusplus,
    load_model,
    seed_centers,
)
from sparsecluster.run.history import SeedingRecord

X, CENTERS = problem("text", "float64")


class Stop(Exception):
    pass


class Frames:
    """A callback that keeps what it is shown."""

    def __init__(self):
        self.records, self.centers, self.labels, self.seeding = [], [], [], []

    def __call__(self, record):
        self.records.append(record)
        self.centers.append(record.centers())
        self.labels.append(record.labels())

    def on_seeding(self, record):
        self.seeding.append(record)


@pytest.fixture
def frames():
    return Frames()


# --- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [X, csr(X)], ids=["dense", "sparse"])
def test_record_shows_what_the_oracle_has_after_each_step(rows, frames):
    KMeans(len(CENTERS), init=CENTERS, tol=0, callback=frames).fit(rows)
    steps = lloyd(X, CENTERS)
    assert len(frames.records) == len(steps)
    before = CENTERS
    for step, centers, labels in zip(steps, frames.centers, frames.labels, strict=True):
        assert sp.issparse(centers) == sp.issparse(rows)
        np.testing.assert_array_equal(labels, nearest(X, before))
        np.testing.assert_allclose(dense(centers), step.centers, atol=1e-12)
        before = step.centers


def test_record_shows_centers_in_all_columns_where_few_occur(frames):
    wide = sp.csr_array((csr(X).data, 7000 * csr(X).indices, csr(X).indptr), shape=(600, 2_000_000))
    km = KMeans(5, random_state=0, callback=frames).fit(wide)
    assert {centers.shape for centers in frames.centers} == {(5, 2_000_000)}
    assert (frames.centers[-1] != km.cluster_centers_).nnz == 0


def test_record_of_single_moves_shows_rows_in_their_new_clusters(frames):
    KMeans(20, refine="first-variation", random_state=0, callback=frames).fit(csr(X))
    moves = [i for i, one in enumerate(frames.records) if one.algorithm == "first-variation"]
    assert moves
    for i in moves:
        changed = np.count_nonzero(frames.labels[i] != frames.labels[i - 1])
        assert 0 < changed <= frames.records[i].moved
        means = [X[frames.labels[i] == cluster].mean(axis=0) for cluster in range(20)]
        np.testing.assert_allclose(dense(frames.centers[i]), means, atol=1e-9)


@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_record_of_a_batch_shows_its_rows_alone(schedule, frames):
    options = {"schedule": schedule, "max_iter": 3, "batch_size": 100, "random_state": 0}
    km = MiniBatchKMeans(4, **options, callback=frames)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        km.fit(csr(X))
    assert frames.records[0].rows == 100
    for record, labels in zip(frames.records, frames.labels, strict=True):
        assert np.count_nonzero(labels >= 0) == record.rows
        assert labels.max() < 4
    np.testing.assert_array_equal(dense(frames.centers[-1]), dense(km.cluster_centers_))


def test_what_a_record_showed_stays_as_it_was(frames):
    seen = []
    km = KMeans(6, random_state=0, callback=lambda record: seen.append(record.labels().copy()))
    km.fit(csr(X))
    KMeans(6, random_state=0, callback=frames).fit(csr(X))
    assert len({labels.tobytes() for labels in frames.labels}) > 2
    for one, other in zip(frames.labels, seen, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("refine", [None, "first-variation"])
def test_fit_does_not_notice_what_is_done_with_its_copies(refine):
    def spoil(record):
        record.centers().data[:] = 0
        record.labels()[:] = 0

    expected = KMeans(20, refine=refine, random_state=0).fit(csr(X))
    found = KMeans(20, refine=refine, random_state=0, callback=spoil).fit(csr(X))
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(dense(found.cluster_centers_), dense(expected.cluster_centers_))


@pytest.mark.parametrize("name", ["centers", "labels"])
def test_record_says_that_it_is_too_late_to_ask(name):
    km = KMeans(3, random_state=0, callback=lambda record: None).fit(csr(X))
    for record in (km.history_[-1], KMeans(3, random_state=0).fit(csr(X)).history_[0]):
        with pytest.raises(RuntimeError, match=rf"while the callback runs.*record\.{name}\(\)"):
            getattr(record, name)()


def test_record_that_is_copied_in_a_callback_is_a_plain_one():
    copies = []

    def callback(record):
        copies.extend([pickle.loads(pickle.dumps(record)), copy.deepcopy(record)])

    km = KMeans(3, random_state=0, callback=callback).fit(csr(X))
    assert copies == [record for record in km.history_ for _ in range(2)]
    with pytest.raises(RuntimeError, match="while the callback runs"):
        copies[0].labels()


def test_every_field_of_a_record_is_documented():
    for name in IterationRecord.__dataclass_fields__:
        assert f"    {name} : " in IterationRecord.__doc__


# --- seeding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["furthest-first", "oversample", "bisecting", "k-means||"])
def test_progress_of_seeding_rises(method):
    shares = []
    seed_centers(csr(X), 12, method, random_state=0, progress=shares.append)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def stop_at_second(shares):
    def progress(share):
        shares.append(share)
        if len(shares) == 2:
            raise Stop

    return progress


@pytest.mark.parametrize("method", ["k-means++", "mcmc"])
def test_progress_is_called_while_the_core_works_and_may_end_it(method):
    """Either would take many seconds to its end."""
    rows = np.random.default_rng(0).random((20_000, 300), dtype=np.float32)
    shares, options = [], {"chain_length": 2000} if method == "mcmc" else {}
    with pytest.raises(Stop):
        seed_centers(
            rows, 10_000, method, random_state=0, progress=stop_at_second(shares), **options
        )
    assert len(shares) == 2
    assert 0 < shares[0] < shares[1] < 1


def test_progress_changes_no_center():
    expected = kmeans_plusplus(csr(X), 50, random_state=0)[1]
    found = kmeans_plusplus(csr(X), 50, random_state=0, progress=lambda share: None)[1]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_callback_hears_of_the_seeding_of_every_run(n_threads, frames):
    options = {"init": "furthest-first", "n_init": 2, "random_state": 0}
    KMeans(6, **options, n_threads=n_threads, callback=frames).fit(csr(X))
    for run in (0, 1):
        heard = [record for record in frames.seeding if record.run == run]
        assert [record.share for record in heard] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
        assert all(isinstance(record, SeedingRecord) for record in heard)


def test_starts_of_batches_are_parts_of_one_seeding(frames):
    options = {"init": "furthest-first", "n_init": 2, "random_state": 0}
    MiniBatchKMeans(3, **options, callback=frames).fit(csr(X))
    assert [record.share for record in frames.seeding] == [0.25, 0.5, 0.75, 1.0]


# --- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans])
@pytest.mark.parametrize("layout", [csr, np.array], ids=["sparse", "dense"])
def test_single_steps_lead_where_the_fit_leads_and_do_not_warn(kind, layout):
    rows = layout(X[np.any(X, axis=1)])
    start = rows[:7]
    whole = kind(7, init=start, tol=0).fit(rows)
    centers, costs = start, []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(whole.n_iter_):
            step = kind(7, init=centers, max_iter=1, tol=0).fit(rows)
            centers = step.cluster_centers_
            costs.append(step.history_[0].cost)
    assert costs == [record.cost for record in whole.history_]
    np.testing.assert_array_equal(step.labels_, whole.labels_)
    np.testing.assert_array_equal(dense(centers), dense(whole.cluster_centers_))


@pytest.mark.parametrize(
    "options", [{"max_iter": 1}, {"max_iter": 2, "init": csr(X)[:7]}], ids=["by name", "two steps"]
)
def test_other_fits_that_do_not_converge_still_warn(options):
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        KMeans(7, tol=0, random_state=0, **options).fit(csr(X))


# --- how a fit went ------------------------------------------------------------------------------


def test_converged_says_whether_the_stopping_rule_was_met():
    assert KMeans(7, random_state=0).fit(csr(X)).converged_ is True
    assert KMeans(7, init=csr(X)[:7], max_iter=1, tol=0).fit(csr(X)).converged_ is False
    stopped = KMeans(7, random_state=0, tol=0, callback=lambda record: record.iteration == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stopped.fit(csr(X)).converged_ is False


def test_fit_that_resumed_knows_the_seconds_of_its_seeding(tmp_path):
    def stop(record):
        raise Stop

    fit = {"n_clusters": 7, "random_state": 0, "checkpoint": tmp_path, "tol": 0}
    with pytest.raises(Stop):
        KMeans(**fit, callback=stop).fit(csr(X))
    resumed = KMeans(**fit).fit(csr(X))
    assert resumed.seconds_["seeding"] > 0
    assert resumed.seconds_ == KMeans(**fit).fit(csr(X)).seconds_ | {
        "total": resumed.seconds_["total"]
    }


# --- checkpoints ---------------------------------------------------------------------------------


def press_ctrl_c(iteration):
    def callback(record):
        if record.iteration == iteration:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_saves_the_last_iteration_and_is_passed_on(tmp_path, caplog, capfd):
    caplog.set_level(logging.INFO, "sparsecluster")
    fit = {"n_clusters": 9, "random_state": 0, "tol": 0}
    with pytest.raises(KeyboardInterrupt):
        KMeans(**fit, checkpoint=tmp_path, callback=press_ctrl_c(5)).fit(csr(X))
    saved = f"Saved in {tmp_path}: iteration 5. The same fit continues from there."
    assert caplog.messages == [saved]
    seen = []
    resumed = KMeans(**fit, checkpoint=tmp_path, callback=seen.append, verbose=1).fit(csr(X))
    assert caplog.messages[1:] == ["Continuing at iteration 6."]
    assert "Continuing at iteration 6.\n" in capfd.readouterr().out
    assert seen[0].iteration == 6
    whole = KMeans(**fit).fit(csr(X))
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert [r.moved for r in resumed.history_] == [r.moved for r in whole.history_]


def test_state_that_cannot_be_saved_does_not_hide_what_ended_the_fit(tmp_path, caplog):
    def fail(record):
        for file in tmp_path.iterdir():
            file.unlink()
        tmp_path.rmdir()
        raise Stop

    with pytest.raises(Stop):
        KMeans(9, random_state=0, tol=0, checkpoint=tmp_path, callback=fail).fit(csr(X))
    assert caplog.messages[0].startswith(f"Could not save the fit in {tmp_path}: ")


# --- report --------------------------------------------------------------------------------------


def test_report_of_an_estimator_is_shown_and_saved(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X))
    page = km.report(tmp_path / "page.html", csr(X), title="<Groups>")
    assert (tmp_path / "page.html").read_text() == page.html
    assert "&lt;Groups&gt;" in page.html
    assert page.same_rows is True
    assert page.rows == len(X)
    shown = page._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!')
    assert shown.count("<") == 2
    page.save(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()


def test_report_of_a_loaded_model_is_that_of_the_fit(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X))
    km.save(tmp_path / "model")
    assert load_model(tmp_path / "model").report().html == km.report().html


def test_report_without_jinja_names_the_extra(monkeypatch):
    km = KMeans(3, random_state=0).fit(csr(X))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'sparsecluster\[report\]'"):
        km.report()
