"""Files and folders that appear whole or not at all, also where the process or the machine dies.

They are built under another name in the same folder, written through to the disk, then renamed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The names `.<target>.<random>.partial` and `.<target>.<random>.old` belong to this module.
PARTIAL, OLD = ".partial", ".old"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_REPLACE, EXCHANGE = 1, 2  # flags of renameat2
_renameat2: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; what it holds takes the place of `path` when the block ends well.

    Whoever opens `path` at any time finds the old file or the new one. After an exception the old
    one stays. What a killed process left is removed by the next one that writes to the same path.

    Parameters
    ----------
    path : str or path
        The file to write. A link is followed; the mode of an existing file is kept.

    Yields
    ------
    Path
        An empty file in the same folder. It must be written in place, not replaced.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsecluster.storage.atomic import atomic_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_file(f"{folder}/a.txt") as partial:
    ...         _ = partial.write_text("all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = _target(path)
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is not a regular file. Choose another name.")
    partial, lock = _new(target, Path.touch)
    try:
        with contextlib.suppress(OSError):
            os.fchmod(lock, stat.S_IMODE(os.stat(target).st_mode))
        yield partial
        _sync(partial)
        os.replace(partial, target)
    except BaseException as error:
        _name_file(error, target)
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)
    _sync(target.parent)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; it takes the name `path` when the block ends well.

    Whoever opens `path` finds the old folder or the new one, and of several that are written at
    once the last that ended. Only where a file system cannot exchange two folders in one step there
    is none between two renames. After an exception the old one stays.

    Parameters
    ----------
    path : str or path
        The folder to make. A link is followed.
    overwrite : bool, default=False
        Whether a folder of this name is replaced, whatever it holds: look first at what it is.

    Yields
    ------
    Path
        An empty folder beside `path`.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsecluster.storage.atomic import atomic_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(f"{folder}/a") as partial:
    ...         _ = (partial / "b.txt").write_text("all of it")
    ...     os.listdir(folder), os.listdir(f"{folder}/a")
    (['a'], ['b.txt'])
    """
    target = _target(path)
    _check_free(target, overwrite)
    partial, lock = _new(target, Path.mkdir)
    try:
        yield partial
        _sync_all(partial)
        _check_free(target, overwrite)
        _put_in_place(partial, target, overwrite)
    except BaseException as error:
        _name_file(error, target)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _name_file(error: BaseException, target: Path) -> None:
    """Say which file there is no room for; Python does not."""
    if isinstance(error, OSError) and error.filename is None and error.errno in NO_ROOM:
        error.filename = os.fspath(target)


def _target(path: str | os.PathLike[str]) -> Path:
    """Where a link leads, with nothing stale beside it."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent}. Make it first.")
    _remove_stale(target)
    return target


def _check_free(target: Path, overwrite: bool) -> None:
    try:
        mode = os.stat(target).st_mode  # once, because it may go meanwhile
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise FileExistsError(f"{target} exists and is not a folder. Choose another name.")
    if not overwrite:
        raise FileExistsError(f"{target} exists. Choose another name, or pass overwrite=True.")


def _put_in_place(partial: Path, target: Path, overwrite: bool) -> None:
    """Give the new folder its name; the one that had it goes."""
    while True:
        try:
            if not overwrite or not _renamed(partial, target, EXCHANGE):
                _renamed(partial, target, NO_REPLACE)
            break
        except FileExistsError:
            _check_free(target, overwrite)  # another process was there first
        except NotImplementedError:
            _put_in_two_steps(partial, target, overwrite)
            break
    _sync(target.parent)
    shutil.rmtree(partial, ignore_errors=True)


def _renamed(partial: Path, target: Path, flag: int) -> bool:
    """Rename in one step; False where there is nothing to exchange with."""
    if _renameat2 is None:
        raise NotImplementedError
    here = -100  # AT_FDCWD
    if _renameat2(here, os.fsencode(partial), here, os.fsencode(target), flag) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.EINVAL, errno.ENOSYS):  # not on this file system, or not in this kernel
        raise NotImplementedError
    if error == errno.ENOENT and flag == EXCHANGE:
        return False
    raise OSError(error, os.strerror(error), str(target))


def _put_in_two_steps(partial: Path, target: Path, overwrite: bool) -> None:
    """Move what has the name away, then rename; what was moved comes back on failure."""
    while True:
        old, lock = _free_name(target, OLD), None
        try:
            if overwrite:
                with contextlib.suppress(FileNotFoundError):
                    lock = _locked(target)
                    os.rename(target, old)
            os.rename(partial, target)
            _sync(target.parent)
            return
        except BaseException as error:
            if not isinstance(error, OSError) or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(old, target)
                raise
            _check_free(target, overwrite)  # another process was there first
        finally:
            _discard(old)
            if lock is not None:
                os.close(lock)


def _discard(old: Path) -> None:
    # Under another name first, because half of it must not be taken for the one to bring back.
    discarded = old.with_suffix(PARTIAL)
    with contextlib.suppress(FileNotFoundError):
        os.rename(old, discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def _free_name(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}{ending}")


def _new(target: Path, make: Callable[[Path], object]) -> tuple[Path, int]:
    """A new file or folder beside the target, and the lock that shows that someone writes it."""
    while True:
        partial = _free_name(target, PARTIAL)
        make(partial)
        # Someone may take it for a stale one before the lock is there.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
            if _hold(lock, partial):
                return partial, lock


def _hold(lock: int, path: Path) -> bool:
    """Lock what is open; False, and closed, where it was removed meanwhile."""
    # Where a file system has no locks nobody takes them, and nothing stale is removed.
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return True
    os.close(lock)
    return False


def _locked(path: Path) -> int | None:
    """The lock of a file or folder that nobody holds; None where someone does."""
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove_stale(target: Path) -> None:
    """Remove what killed processes left beside the target; locks tell what is alive."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}({PARTIAL}|{OLD})")
    for name in os.listdir(target.parent):
        if not ours.fullmatch(name):
            continue
        stale = target.with_name(name)
        with contextlib.suppress(OSError):
            lock = _locked(stale)
            if lock is None:
                continue
            try:
                if name.endswith(OLD) and not target.exists():
                    # Its process died between the two renames: the only folder that is whole.
                    os.rename(stale, target)
                elif stale.is_dir():
                    shutil.rmtree(stale, ignore_errors=True)
                else:
                    stale.unlink()
            finally:
                os.close(lock)


def _sync(path: Any) -> None:
    """Have the disk hold what a file or folder holds."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _sync_all(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(parent, name))
        _sync(parent)
