"""The command line. Commands import what they need when they run, so that help stays instant."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from typing import Annotated

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError
from rich.console import Console

from sparsecluster.cli.screen import Output
from sparsecluster.cli.words import in_options, system_error
from sparsecluster.rows.errors import WorkersLost

# A command is imported when it is run or asked for its help, because it has the options of all
# readers. Until then this is all that is known of it.
COMMANDS = {
    "fit": "Cluster the rows of a file or a store, and show the clusters.",
    "hierarchy": "Merge the rows of a file into a tree, and show the clusters where it is cut.",
    "tree": "Divide the rows of a file from the root down, into leaves of bounded sizes.",
    "predict": """Find the cluster of each row of a file, which may be larger than memory.

    The file is read as the training data were: with their vocabulary and weights.""",
    "dbscan": "Find clusters of rows that have many others nearby; the rest is noise.",
    "choose-k": "Try every number of clusters in a range, and recommend one.",
    "evaluate": "Judge a clustering by its rows, and by the true labels where they are known.",
    "neighbors": "Find the nearest rows of each row, or all within a radius.",
    "convert": """Write the rows of a file into a store: memory-mapped, for data larger than memory.

    The store appears when it is complete; an interrupted conversion leaves nothing behind.""",
    "inspect": "Show what a data file, a store or a model holds.",
    "report": """Write a page about a model: how the fit went, the sizes and top terms of clusters.

    With data it also shows how far their rows are from the centers, and which are nearest. They are
    read as the training data were, block by block, so they may be larger than memory.""",
    "plan": "Estimate the bytes and seconds of an iteration of k-means on many machines.",
    "seed": "Choose starting centers and list the rows that they are, one per line.",
    "demo": "Cluster the docstrings of this Python installation and show the clusters.",
}
MISTAKE, FAILURE, INTERRUPTED, TERMINATED = 2, 1, 130, 128 + signal.SIGTERM
WRITE_TO_STDOUT = ("--labels", "-o", "--join")  # options after which - is standard output
AVOIDABLE = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def _version() -> str:
    """Answer the version when it is asked for: to look it up takes longer than the help."""
    from sparsecluster import __version__

    return __version__


app = App(
    name="sparsecluster",
    help="Exact, fast clustering of sparse data.",
    help_epilogue=(
        "`sparsecluster help fit` tells of the options of fit. Exit status: 0 done, 1 failed (disk "
        "full, out of memory, a fault of the program), 2 refused (wrong options or data), 130 "
        "interrupted, 143 terminated."
    ),
    version=_version,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
app.meta.suppress_keyboard_interrupt = False
app.register_install_completion_command(name="--install-completion")
for _name, _help in COMMANDS.items():
    _module = _name.replace("-", "_")
    app.command(f"sparsecluster.cli.{_module}:{_module}", name=_name, help=_help)


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Run a command; what the user got wrong ends in one line and exit status 2.

    Parameters
    ----------
    debug
        Show the traceback of an error.
    """
    if tokens and tokens[0] == "help":
        tokens = (*tokens[1:], "--help")
    tokens = tuple(map(_without_hyphen, tokens, ("", *tokens)))
    try:
        app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        _exit(INTERRUPTED, str(interrupt) or "interrupted")
    except Terminated:
        _exit(TERMINATED, "terminated")
    except BrokenPipeError:
        _stop_quietly()
    except Exception as error:
        ending = None if debug else _ending(error)
        if ending is None:
            raise
        _exit(*ending)


def _without_hyphen(token: str, before: str) -> str:
    """Standard input by its other name: what begins with a hyphen is taken for an option."""
    return "/dev/stdin" if token == "-" and before not in WRITE_TO_STDOUT else token


def _ending(error: Exception) -> tuple[int, str] | None:
    """The status and the message that an error ends in; None for a fault of the program."""
    if isinstance(error, CycloptsError):
        return MISTAKE, _mistaken(error)
    if isinstance(error, ValueError | ImportError):
        return MISTAKE, in_options(str(error))
    if isinstance(error, WorkersLost):
        return FAILURE, in_options(str(error))
    if isinstance(error, MemoryError):
        return FAILURE, "out of memory: convert the data to a store, or lower --memory-limit"
    if isinstance(error, OSError):
        return MISTAKE if isinstance(error, AVOIDABLE) else FAILURE, in_options(system_error(error))
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return FAILURE, "the system has no more threads: raise the limit on processes (ulimit -u)"
    return None


def _mistaken(error: CycloptsError) -> str:
    """What is wrong with the arguments."""
    if isinstance(error, UnusedCliTokensError):
        return f"{' '.join(error.unused_tokens or ())}: not expected. See `sparsecluster help`."
    if not isinstance(error, MissingArgumentError) or error.argument is None:
        return str(error)
    given = error.keyword or next((token.keyword for token in error.argument.tokens), None)
    if given:
        return f"{given} needs a value."
    name, needed = " ".join(error.command_chain or ()), error.argument.name
    if error.argument.field_info.is_positional:
        needed = needed.lstrip("-").upper()
    hint = re.search(r"Did you mean .*", str(error))
    return f"{name} needs {needed}. {hint[0] if hint else f'See `sparsecluster help {name}`.'}"


def _stop_quietly() -> None:
    """Whoever read the output has seen enough."""
    _discard_output()
    sys.exit(0)


def _discard_output() -> None:
    """Have what is left of the output go nowhere, so that the end of the process is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(status: int, message: str) -> None:
    """Say why on standard error, in one line, and end."""
    line = "sparsecluster: " + " ".join(message.split())
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard_output()
    sys.exit(status)


class Terminated(SystemExit):
    """SIGTERM: the process ends as by Ctrl-C, so that what is half written is removed."""


def _terminated(*_: object) -> None:
    raise Terminated(TERMINATED)


def main() -> None:
    """Run the command line on the arguments of this process."""
    signal.signal(signal.SIGTERM, _terminated)
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what it cannot show is no reason to fail
            stream.reconfigure(errors="replace")
    app.console = app.meta.console = Output()
    try:
        app.meta()
        sys.stdout.flush()
    except BrokenPipeError:  # of the help, which is not a command
        _stop_quietly()
    except OSError as error:
        _exit(FAILURE, system_error(error))
