"""Other processes: how long they may take, and copies of this one that import nothing anew."""

import atexit
import contextlib
import os
import signal
import sys
import tempfile
import traceback
import weakref
from typing import NamedTuple

from sparsecluster.cli import main

# Seconds until a process counts as one that hangs: far more than it takes beside any other load.
HANGS = 900


class Ended(NamedTuple):
    """A process at its end: its exit status, minus that of a signal, and what it wrote."""

    returncode: int
    stdout: bytes
    stderr: bytes


def forked(function, given=b""):
    """Run a function in a copy of this process, up to its end; `given` is its standard input."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.close(writing)
            _run(function, reading, out.fileno(), err.fileno())
        os.close(reading)
        with contextlib.suppress(BrokenPipeError), open(writing, "wb") as pipe:
            pipe.write(given)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read(), err.read())


def command(*arguments, folder=".", given=b"", **environment):
    """The same for a line of the command, in a folder."""

    def program():
        os.chdir(folder)
        os.environ.update(environment)
        tempfile.tempdir = None  # which the environment may name
        sys.argv = ["sparsecluster", *map(str, arguments)]
        main()

    return forked(program, given)


def _forget_the_end():
    """Leave what the tests have to do at their end to them; what the copy adds is its own."""
    atexit._clear()
    # It runs finalizers by a function of atexit, which the first of them registers.
    weakref.finalize._registry.clear()
    weakref.finalize._registered_with_atexit = False


def _run(function, given, out, err):
    """Run a function as the interpreter runs a program, and never return."""
    status = 1
    try:
        signal.alarm(HANGS)
        _forget_the_end()
        os.dup2(given, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        function()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(ended.code)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
