"""Where clusters are written beside the data: the options `--join` and `--join-column`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from sparsecluster.cli.options import Reading
from sparsecluster.cli.outputs import STDOUT

if TYPE_CHECKING:
    from sparsecluster.prepare.join import Join

OUTPUT = Group("Output", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Joining:
    """A copy of the data with the clusters in it."""

    join: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            allow_leading_hyphen=True,
            help="Write the data again to this file, with the cluster of each row and, where "
            "clusters have centers, its distance to the center: csv, jsonl, parquet and h5ad as "
            "they are, others as a .csv file.",
        ),
    ] = None
    join_column: Annotated[
        str | None,
        Parameter(group=OUTPUT, help="Name of the column with the clusters; cluster by default."),
    ] = None

    def plan(
        self,
        data: Any,
        reading: Reading,
        *,
        like: Any = None,
        distances: bool = True,
        metalabels: bool = False,
    ) -> Join | None:
        """What is to be written, once it is checked; None where nothing is."""
        if self.join is None:
            if self.join_column is not None:
                raise ValueError("--join-column has no effect without --join.")
            return None
        if str(self.join) == STDOUT:
            raise ValueError("--join needs a file. --labels - writes to standard output.")
        if metalabels:
            raise ValueError(
                "--join cannot be combined with --metalabels: rows are not those of data."
            )
        from sparsecluster.prepare.join import Join

        column = "cluster" if self.join_column is None else self.join_column
        return Join(
            data,
            self.join,
            column=column,
            distances=distances,
            like=like,
            options=reading.given(),
        )
