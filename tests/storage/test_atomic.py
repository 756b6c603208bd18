"""Files and folders that appear whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparsecluster.storage import atomic
from sparsecluster.storage.atomic import atomic_file, atomic_folder

# Writes for ever to what it is given, and says when it has begun.
WRITER = """
import sys, time
from pathlib import Path
from sparsecluster.storage import atomic
with getattr(atomic, sys.argv[1])(sys.argv[2]) as partial:
    place = partial / "part" if partial.is_dir() else partial
    place.write_text("half")
    Path(sys.argv[2] + ".begun").touch()
    time.sleep(60)
"""


def begin_writing(kind, path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(path)])
    begun = path.with_name(path.name + ".begun")
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.01)
    begun.unlink()
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture(params=["exchange", "two renames"])
def renames(request, monkeypatch):
    """File systems that can exchange two folders, and those that cannot."""
    if request.param == "two renames":
        monkeypatch.setattr(atomic, "_renameat2", None)


def write(kind, path, text, **options):
    with kind(path, **options) as partial:
        (partial / "part" if partial.is_dir() else partial).write_text(text)


def content(path):
    return (path / "part" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("kind", [atomic_file, atomic_folder])
def test_new_target_holds_what_was_written_and_nothing_else_is_left(kind, tmp_path):
    write(kind, tmp_path / "a", "new")
    assert content(tmp_path / "a") == "new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("kind", "options"), [(atomic_file, {}), (atomic_folder, {"overwrite": True})]
)
def test_old_target_is_replaced(kind, options, renames, tmp_path):
    write(kind, tmp_path / "a", "old")
    write(kind, tmp_path / "a", "new", **options)
    assert content(tmp_path / "a") == "new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("kind", "options"), [(atomic_file, {}), (atomic_folder, {"overwrite": True})]
)
def test_exception_leaves_the_old_target_alone(kind, options, renames, tmp_path):
    write(kind, tmp_path / "a", "old")
    with pytest.raises(KeyboardInterrupt), kind(tmp_path / "a", **options):
        raise KeyboardInterrupt
    assert content(tmp_path / "a") == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_existing_folder_is_refused_unless_it_may_be_overwritten(tmp_path):
    write(atomic_folder, tmp_path / "a", "old")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write(atomic_folder, tmp_path / "a", "new")
    assert content(tmp_path / "a") == "old"


def test_folder_made_meanwhile_is_refused(renames, tmp_path):
    with pytest.raises(FileExistsError, match="exists"), atomic_folder(tmp_path / "a"):
        (tmp_path / "a").mkdir()
    assert os.listdir(tmp_path) == ["a"]


def test_of_folders_written_at_once_the_last_stays(renames, tmp_path):
    """All threads put theirs in place at the same moment, again and again."""
    n_writers, n_rounds = 4, 15
    barrier = threading.Barrier(n_writers)

    def write_often(number):
        try:
            for turn in range(n_rounds):
                with atomic_folder(tmp_path / "a", overwrite=True) as partial:
                    (partial / "part").write_text(f"{number} {turn}")
                    barrier.wait()
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(n_writers) as pool:
        for writer in [pool.submit(write_often, number) for number in range(n_writers)]:
            writer.result()
    assert content(tmp_path / "a").endswith(f" {n_rounds - 1}")
    assert os.listdir(tmp_path) == ["a"]


def test_folder_is_never_missing_while_it_is_replaced(tmp_path):
    write(atomic_folder, tmp_path / "a", "0")
    done = threading.Event()

    def replace():
        for turn in range(60):
            write(atomic_folder, tmp_path / "a", str(turn), overwrite=True)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(replace)
        while not done.is_set():
            assert (tmp_path / "a").is_dir()
        replacing.result()


@pytest.mark.parametrize(("kind", "other"), [(atomic_file, "mkdir"), (atomic_folder, "touch")])
def test_target_of_the_other_kind_is_refused(kind, other, tmp_path):
    getattr(tmp_path / "a", other)()
    with pytest.raises(FileExistsError, match="Choose another name"):
        write(kind, tmp_path / "a", "new")


@pytest.mark.parametrize("kind", [atomic_file, atomic_folder])
def test_missing_parent_is_named(kind, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        write(kind, tmp_path / "nowhere" / "a", "new")


def test_link_is_followed(tmp_path):
    write(atomic_file, tmp_path / "a", "old")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(atomic_file, tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "a") == "new"


def test_mode_of_a_file_is_kept(tmp_path):
    write(atomic_file, tmp_path / "a", "old")
    (tmp_path / "a").chmod(0o640)
    write(atomic_file, tmp_path / "a", "new")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", [atomic_file, atomic_folder])
def test_what_a_killed_process_left_is_removed_by_the_next(kind, tmp_path):
    kill(begin_writing(kind.__name__, tmp_path / "a"))
    assert len(os.listdir(tmp_path)) == 1
    assert not (tmp_path / "a").exists()
    write(kind, tmp_path / "a", "new")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", [atomic_file, atomic_folder])
def test_what_a_live_process_writes_is_left_alone(kind, tmp_path):
    process = begin_writing(kind.__name__, tmp_path / "a")
    try:
        write(kind, tmp_path / "a", "new")
        assert len(os.listdir(tmp_path)) == 2
    finally:
        kill(process)


def test_folder_moved_away_by_a_killed_process_comes_back(tmp_path):
    # As left by a kill between the two renames.
    (tmp_path / ".a.0123456789ab.old").mkdir()
    (tmp_path / ".a.0123456789ab.old" / "part").write_text("old")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write(atomic_folder, tmp_path / "a", "new")
    assert content(tmp_path / "a") == "old"


def test_files_of_similar_names_are_left_alone(tmp_path):
    names = [".a.b.0123456789ab.partial", ".a.partial", "a.0123456789ab.partial", ".a.x.old"]
    for name in names:
        (tmp_path / name).touch()
    write(atomic_file, tmp_path / "a", "new")
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "a"])


@pytest.mark.parametrize("kind", [atomic_file, atomic_folder])
def test_a_full_disk_names_what_there_is_no_room_for(kind, tmp_path):
    with pytest.raises(OSError, match="No space") as raised, kind(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "a")
    assert not os.listdir(tmp_path)
