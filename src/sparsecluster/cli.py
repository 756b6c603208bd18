"""The command line. Commands import what they need when they run, so that help stays instant."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console


def _version() -> str:
    """Answer the version of the installed package, whose one source is pyproject.toml."""
    from importlib.metadata import version

    return version("sparsecluster")


app = App(
    name="sparsecluster",
    help="Exact, fast k-means on sparse data.",
    version=_version,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
app.meta.suppress_keyboard_interrupt = False


@app.command
def demo(*, clusters: int = 20, terms: int = 8, seed: int = 0) -> None:
    """Cluster the docstrings of this Python installation and show the clusters.

    Parameters
    ----------
    clusters
        How many clusters to make.
    terms
        How many terms to show for each cluster.
    seed
        The random state of the clustering.
    """
    from sparsecluster.demo import run

    run(clusters=clusters, terms=terms, seed=seed)


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
    try:
        app(tokens, exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        _exit(130, "interrupted")
    except (CycloptsError, ValueError) as error:
        if debug:
            raise
        _exit(2, str(error))


def _exit(status: int, message: str) -> None:
    """Say why on standard error, in one line, and end."""
    line = "sparsecluster: " + " ".join(message.split())
    Console(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(status)


def main() -> None:
    """Run the command line on the arguments of this process."""
    app.meta()
