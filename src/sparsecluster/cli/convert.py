"""`sparsecluster convert`: from a file into a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sparsecluster.cli.inputs import Inputs
from sparsecluster.cli.machines import Machines
from sparsecluster.cli.models import check_data, command
from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted


def convert(
    data: Path,
    out: Path,
    *,
    like: Path | None = None,
    missing_columns: Literal["error", "zero"] = "error",
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
    machines: Machines = Machines(),
) -> None:
    """Write the rows of a file into a store.

    Parameters
    ----------
    data
        The file: svmlight, npz, npy, mtx, UCI docword, h5ad, zarr, parquet, txt, jsonl, csv; also
        .gz, .bz2 and .zst. Or a pattern in quotes ('part-*.csv'), a folder of files, or - for
        standard input.
    out
        The folder to make, for example data.store.
    like
        A model or a store: read the file in the way in which that one's data were read.
    missing_columns
        With --like, whether a file that lacks some of the columns, by name, is refused, or these
        are zero.
    overwrite
        Replace a store of this name.
    """
    from sparsecluster import convert, load_model, open_store
    from sparsecluster.prepare.convert import check_target
    from sparsecluster.storage.store_files import is_store

    screen = Screen(running)
    started = time.perf_counter()
    prepare = preparing.transformer()
    inputs = Inputs([data])
    if out.is_file() and not any(path.exists() for path in inputs.paths):
        turned = command("convert", out, data)
        raise ValueError(f"{data} does not exist, and {out} does. Did you mean {turned}?")
    check_data(inputs.path)
    check_outputs(inputs=[*inputs.paths, like], folder=out)
    check_target(data, out, overwrite)
    known = like and (open_store(like) if is_store(like) else load_model(like))
    with (
        screen.warnings_in_words(),
        screen.progress(f"converting {inputs.name}", inputs.path) as show,
    ):
        rows = convert(
            data,
            out,
            prepare=prepare,
            like=known,
            missing_columns=missing_columns,
            metalabels=preparing.metalabels,
            overwrite=overwrite,
            n_threads=running.threads,
            executor=machines.executor,
            progress=show,
            **reading.given(),
        )
    seconds = time.perf_counter() - started
    entries = int(rows.matrix.indptr[-1])
    size = rows.files.n_bytes
    summary = {
        "format": rows.recipe and rows.recipe.format,
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "entries": entries,
        "bytes": size,
        "seconds": seconds,
    }
    screen.result(
        summary,
        f"{out}: read as {summary['format']}, {counted(rows.n_rows, 'row')}, "
        f"{counted(rows.n_features, 'column')}, {counted(entries, 'entry', 'entries')}, "
        f"{size / 1e6:,.1f} MB, in {seconds:.1f} s",
    )
