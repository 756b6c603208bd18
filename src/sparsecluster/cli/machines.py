"""Options of commands that may run on the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.options import RUNNING


@Parameter(name="*", group=RUNNING)
@dataclass(frozen=True, kw_only=True)
class Machines:
    """Who computes.

    Parameters
    ----------
    dask
        Work on the workers of the Dask scheduler at this address (tcp://host:8786). The data are a
        store (files, for convert) that all of them see, under the same path.
    workers
        Work in so many worker processes on this machine, from a store (files, for convert).
    """

    dask: str | None = None
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None

    @property
    def executor(self) -> str | int | None:
        """Who is to compute; None for this process."""
        if self.dask is not None and self.workers is not None:
            raise ValueError("--dask cannot be combined with --workers: its workers are there.")
        return self.workers if self.dask is None else self.dask

    @property
    def option(self) -> str:
        """The option that was given."""
        return "--workers" if self.dask is None else "--dask"

    def refuse_with(self, other: str) -> None:
        """Refuse the option where this is given as well."""
        if self.executor is not None:
            raise ValueError(f"{self.option} cannot be combined with {other}.")

    def check_store(self, in_file: bool) -> None:
        """Refuse data that are not a store."""
        if self.executor is not None and not in_file:
            raise ValueError(
                f"{self.option} needs a store that all workers see: make one with "
                f"`sparsecluster convert`."
            )
