"""`sparsecluster convert`: from a file into a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sparsecluster.cli.inputs import Inputs, OneOfData
from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.cli.words import counted

DEFAULTS: tuple[Any, ...] = (Reading(), Preparing(), Running())


def convert(
    data: OneOfData,
    out: Path,
    *,
    like: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    reading: Reading = DEFAULTS[0],
    preparing: Preparing = DEFAULTS[1],
    running: Running = DEFAULTS[2],
) -> None:
    """Write the rows of a file into a store.

    Parameters
    ----------
    data
        The file: svmlight, npz, npy, mtx, UCI docword, h5ad, parquet, txt, jsonl, csv; also .gz,
        .bz2 and .zst. Or a pattern in quotes ('part-*.csv'), a folder of files, or - for standard
        input.
    out
        The folder to make, for example data.store.
    like
        A model or a store: read the file in the way in which that one's data were read.
    overwrite
        Replace a store of this name.
    """
    from sparsecluster import convert
    from sparsecluster.prepare.convert import check_target

    screen = Screen(running)
    started = time.perf_counter()
    prepare = preparing.transformer()
    inputs = Inputs([data])
    check_outputs(inputs=[*inputs.paths, like], folder=out)
    check_target(data, out, overwrite)
    known = None if like is None else opened_like(like)
    with (
        screen.warnings_in_words(),
        screen.progress(f"converting {inputs.name}", inputs.path) as show,
    ):
        rows = convert(
            data,
            out,
            prepare=prepare,
            like=known,
            metalabels=preparing.metalabels,
            overwrite=overwrite,
            n_threads=running.threads,
            progress=show,
            **reading.given(),
        )
    seconds = time.perf_counter() - started
    entries = int(rows.matrix.indptr[-1])
    size = rows.files.n_bytes
    recipe = rows.recipe
    summary = {
        "format": None if recipe is None else recipe.format,
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "entries": entries,
        "bytes": size,
        "seconds": seconds,
    }
    screen.result(
        summary,
        f"{out}: read as {summary['format']}, {counted(rows.n_rows, 'row')}, "
        f"{counted(rows.n_features, 'column')}, {entries:,} entries, {size / 1e6:,.1f} MB, "
        f"in {seconds:.1f} s",
    )


def opened_like(path: Path) -> Any:
    """A store or a model, by whose example a file is read."""
    from sparsecluster.storage.model import load_model
    from sparsecluster.storage.store import is_store, open_store

    return open_store(path) if is_store(path) else load_model(path)
