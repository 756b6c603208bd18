"""`sparsecluster convert`: from a file into a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.screen import Screen

if TYPE_CHECKING:
    from sparsecluster.data.rows import Rows

DEFAULTS: tuple[Any, ...] = (Reading(), Preparing(), Running())


def convert(
    data: Path,
    out: Path,
    *,
    like: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    reading: Reading = DEFAULTS[0],
    preparing: Preparing = DEFAULTS[1],
    running: Running = DEFAULTS[2],
) -> None:
    """Write the rows of a file into a store: memory-mapped, for data larger than memory.

    The store is there when it is whole; a conversion that is interrupted leaves nothing behind.

    Parameters
    ----------
    data
        The file: svmlight, npz, npy, mtx, UCI docword, h5ad, parquet, txt, jsonl, csv; also .gz,
        .bz2 and .zst.
    out
        The folder to make, for example data.store.
    like
        A model or a store: read the file in the way in which that one's data were read.
    overwrite
        Replace a store of this name.
    """
    from sparsecluster.data import convert as converting

    screen = Screen(running)
    started = time.perf_counter()
    options = reading.for_read(running.threads)
    prepare = preparing.transformer()
    known = None if like is None else opened_like(like)
    with screen.warnings_in_words(), screen.progress(f"converting {data.name}", data) as show:
        if preparing.metalabels:
            rows: Rows = converting.convert_labels(
                data, out, options, prepare=prepare, overwrite=overwrite, progress=show
            )
        else:
            rows = converting.convert(
                data, out, options, prepare=prepare, like=known, overwrite=overwrite, progress=show
            )
    seconds = time.perf_counter() - started
    entries = int(rows.matrix.indptr[-1])
    size = sum(file.stat().st_size for file in out.iterdir())
    summary = {
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "entries": entries,
        "bytes": size,
        "seconds": seconds,
    }
    screen.result(
        summary,
        f"{out}: {rows.n_rows:,} rows, {rows.n_features:,} columns, {entries:,} entries, "
        f"{size / 1e6:,.1f} MB, in {seconds:.1f} s",
    )


def opened_like(path: Path) -> Any:
    """A store or a model, by whose example a file is read."""
    from sparsecluster.data.store import is_store, open_store
    from sparsecluster.model import load_model

    return open_store(path) if is_store(path) else load_model(path)
