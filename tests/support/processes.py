"""Other processes: how long they may take, and copies of this one that import nothing anew."""

import os
import signal
import sys
import tempfile
import traceback
from typing import NamedTuple

# Seconds until a process counts as one that hangs: far more than it takes beside any other load.
HANGS = 900


class Ended(NamedTuple):
    """A process at its end: its exit status, minus that of a signal, and what it wrote."""

    returncode: int
    stdout: bytes
    stderr: bytes


def forked(function):
    """Run a function in a copy of this process, up to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _run(function, out.fileno(), err.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read(), err.read())


def _run(function, out, err):
    """Run a function as the interpreter runs a program, and never return."""
    status = 1
    try:
        signal.alarm(HANGS)
        os.dup2(out, 1)
        os.dup2(err, 2)
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
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
