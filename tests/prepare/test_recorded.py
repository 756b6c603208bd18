"""Files that workers read become the same store, byte for byte."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.machines import local_cluster, process_ids

from sparsecluster import Prepare, convert, open_store
from sparsecluster.cli import app
from sparsecluster.formats.svmlight import SvmlightSource
from sparsecluster.rows.errors import ReadError
from sparsecluster.run.local import LocalExecutor

WORDS = "ant bee cat dog eel fox gnu hen ibis jay kea lynx mole newt owl pig".split()


def text(rng, n_words=8):
    return " ".join(rng.choice(WORDS, n_words))


def files_of(folder, kind):
    """Five files of different sizes."""
    rng = np.random.default_rng(0)
    for number, n_rows in enumerate((3, 40, 1, 200, 17)):
        path = folder / f"part-{number}.{kind}"
        if kind == "svm":
            lowest = 0 if number == 3 else 1  # columns count from zero, as shows late
            rows = [
                f"{rng.integers(3)} " + " ".join(f"{c}:{rng.random():.3f}" for c in (lowest, 5, 9))
                for _ in range(n_rows)
            ]
            path.write_text("\n".join(rows) + "\n")
        elif kind == "npz":
            sp.save_npz(path, sp.random(n_rows, 30, 0.2, format="csr", random_state=number))
        elif kind == "txt":
            path.write_text("\n".join(text(rng, 1 + number) for _ in range(n_rows)))
        elif kind == "jsonl":
            rows = [{"name": f"{number}-{n}", "text": text(rng)} for n in range(n_rows)]
            path.write_text("\n".join(json.dumps(row) for row in rows))
        elif kind == "csv":
            rows = [",".join(f"{x:.2f}" for x in rng.random(4)) for _ in range(n_rows)]
            path.write_text("a,b,c,d\n" + "\n".join(rows) + "\n")
    return str(folder / f"part-*.{kind}")


def same_bytes(one, other):
    names = sorted(os.listdir(one))
    assert names == sorted(os.listdir(other))
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


CASES = {
    "svmlight": ("svm", {}),
    "npz": ("npz", {}),
    "npz prepared": ("npz", {"prepare": Prepare(tfidf=True, norm="l2")}),
    "another type": ("npz", {"dtype": "float32"}),
    "text": ("txt", {}),
    "text prepared": ("txt", {"prepare": Prepare(tfidf=True, min_df=3)}),
    "names of rows": ("jsonl", {"column": "text", "id_column": "name"}),
    "table": ("csv", {}),
}


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize(("kind", "options"), CASES.values(), ids=CASES)
def test_store_is_the_same(tmp_path, kind, options, n_parts):
    path = files_of(tmp_path, kind)
    here, there = tmp_path / "here.store", tmp_path / "there.store"
    convert(path, here, **options)
    convert(path, there, executor=LocalExecutor(n_parts), **options)
    assert same_bytes(here, there)


@pytest.mark.parametrize("kind", ["txt", "npz"])
def test_files_like_others_are_the_same(tmp_path, kind):
    path = files_of(tmp_path, kind)
    like = convert(tmp_path / f"part-3.{kind}", tmp_path / "like.store")
    here, there = tmp_path / "here.store", tmp_path / "there.store"
    convert(path, here, like=like)
    convert(path, there, like=like, executor=LocalExecutor(3))
    assert same_bytes(here, there)


def test_labels_as_rows_are_the_same(tmp_path):
    path = files_of(tmp_path, "svm")
    here, there = tmp_path / "here.store", tmp_path / "there.store"
    convert(path, here, metalabels=True)
    convert(path, there, metalabels=True, executor=LocalExecutor(3))
    assert same_bytes(here, there)


def test_store_is_read_here(tmp_path):
    convert(files_of(tmp_path, "npz"), tmp_path / "rows.store")
    given = {"prepare": Prepare(norm="l2")}
    convert(tmp_path / "rows.store", tmp_path / "here.store", **given)
    convert(tmp_path / "rows.store", tmp_path / "there.store", executor=LocalExecutor(2), **given)
    assert same_bytes(tmp_path / "here.store", tmp_path / "there.store")


@pytest.mark.parametrize("as_list", [False, True], ids=["pattern", "list"])
def test_names_of_files_are_those_below_the_folder_of_all(tmp_path, monkeypatch, as_list):
    for folder in ("x", "y"):
        (tmp_path / "d" / folder).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "d" / folder / f"{number}.txt").write_text(f"{folder} {WORDS[number]}")
    monkeypatch.chdir(tmp_path)
    files = sorted((tmp_path / "d").glob("*/*.txt")) if as_list else "d/*/*.txt"
    convert(files, "here.store", format="texts")
    convert(files, "there.store", format="texts", executor=LocalExecutor(3))
    assert same_bytes(tmp_path / "here.store", tmp_path / "there.store")
    assert list(open_store("there.store").ids)[:2] == ["x/0.txt", "x/1.txt"]


def test_missing_folder_is_said_as_without_workers(tmp_path):
    (tmp_path / "a.svm").write_text("0 1:1\n")
    for executor in (None, LocalExecutor(2)):
        with pytest.raises(OSError, match=r"There is no folder .*nodir"):
            convert(tmp_path / "a.svm", tmp_path / "nodir" / "o.store", executor=executor)


def test_nothing_is_left_beside_the_store(tmp_path):
    path = files_of(tmp_path, "txt")
    before = set(os.listdir(tmp_path))
    convert(path, tmp_path / "rows.store", executor=LocalExecutor(2))
    assert set(os.listdir(tmp_path)) - before == {"rows.store"}


def test_bad_file_is_named_and_leaves_nothing(tmp_path):
    path = files_of(tmp_path, "svm")
    (tmp_path / "part-2.svm").write_text("1 5:x\n")
    before = set(os.listdir(tmp_path))
    with pytest.raises(ReadError, match=r"part-2\.svm"):
        convert(path, tmp_path / "rows.store", executor=LocalExecutor(2))
    assert set(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("bad", [[1, 3], [3, 4], [4]])
@pytest.mark.parametrize("kind", ["svm", "txt"])
def test_first_bad_file_is_told_as_without_workers(tmp_path, monkeypatch, kind, bad):
    monkeypatch.chdir(tmp_path)
    files_of(Path(), kind)
    for number in bad:
        # The later, the larger: workers read large files first.
        (tmp_path / f"part-{number}.{kind}").write_bytes(b"1 5:x\xff\n" * number)
    with pytest.raises(ReadError) as here:
        convert(f"part-*.{kind}", "rows.store")
    with pytest.raises(ReadError) as there:
        convert(f"part-*.{kind}", "rows.store", executor=LocalExecutor(2))
    assert str(there.value) == str(here.value)
    assert str(here.value).startswith(f"part-{bad[0]}")


def test_file_that_a_worker_does_not_see_is_named(tmp_path, monkeypatch):
    path = files_of(tmp_path, "txt")
    monkeypatch.setattr("sparsecluster.prepare.recorded.os.path.exists", lambda file: False)
    with pytest.raises(ReadError, match=r"A worker does not see .*part-"):
        convert(path, tmp_path / "rows.store", executor=LocalExecutor(2))


def test_what_was_recorded_is_not_read_again(tmp_path, monkeypatch):
    from sparsecluster.prepare import recorded

    read = []
    write = recorded.write_recording

    def watched(source, folder):
        read.append(source.path)
        write(source, folder)

    class Twice(LocalExecutor):
        """Asks everything once more, as if the answers had been lost."""

        def session(self, factory, specs):
            super().session(factory, specs).ask("record")
            return super().session(factory, specs)

    monkeypatch.setattr(recorded, "write_recording", watched)
    convert(files_of(tmp_path, "npz"), tmp_path / "rows.store", executor=Twice(2))
    assert len(read) == len(set(read)) == 5


@pytest.mark.parametrize("n_files", [1, 5])
def test_columns_that_count_from_zero_as_shows_late_are_read_once(tmp_path, monkeypatch, n_files):
    from sparsecluster.prepare import recorded

    read, write = [], recorded.write_recording

    def watched(source, folder):
        read.append(source.path)
        write(source, folder)

    files_of(tmp_path, "svm")
    path = str(tmp_path / "part-*.svm")
    if n_files == 1:
        monkeypatch.setitem(SvmlightSource.__init__.__kwdefaults__, "block_bytes", 200)
        path = tmp_path / "all.svm"
        lines = [(tmp_path / f"part-{number}.svm").read_text() for number in range(5)]
        path.write_text("".join(lines))
    convert(path, tmp_path / "here.store")
    monkeypatch.setattr(recorded, "write_recording", watched)
    convert(path, tmp_path / "there.store", executor=LocalExecutor(2))
    assert same_bytes(tmp_path / "here.store", tmp_path / "there.store")
    assert len(read) == n_files


def test_killed_worker_changes_nothing(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    rng = np.random.default_rng(0)
    for number in range(6):
        lines = [text(rng, 40) for _ in range(4000)]
        (tmp_path / f"part-{number}.txt").write_text("\n".join(lines))
    path = str(tmp_path / "part-*.txt")
    convert(path, tmp_path / "here.store")
    with (
        local_cluster(2) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        kill = threading.Timer(0.5, os.kill, (min(process_ids(client).values()), signal.SIGKILL))
        kill.start()
        convert(path, tmp_path / "there.store", executor=client)
        kill.join()
    assert same_bytes(tmp_path / "here.store", tmp_path / "there.store")


def test_recordings_of_a_killed_driver_go_with_the_next_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = files_of(Path(), "txt")
    before = set(os.listdir())
    script = f"""
import os, signal
from sparsecluster import convert
from sparsecluster.prepare import recorded
from sparsecluster.run.local import LocalExecutor

write, written = recorded.write_recording, []

def killed(source, folder):
    write(source, folder)
    written.append(folder)
    if len(written) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

recorded.write_recording = killed
convert({path!r}, "rows.store", executor=LocalExecutor(2))
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    (left,) = set(os.listdir()) - before
    assert left.endswith(".partial")
    assert list(Path(left).glob("recordings-*/*/*"))
    convert(path, "rows.store")
    assert set(os.listdir()) - before == {"rows.store"}


def test_command_converts_by_workers(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    files_of(tmp_path, "txt")
    with local_cluster(1, processes=False) as cluster:
        address = cluster.scheduler_address
        app.meta(["convert", "part-*.txt", "rows.store", "--dask", address])
    assert open_store("rows.store").n_rows == 261
