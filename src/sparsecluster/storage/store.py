"""A store: rows in a folder of memory-mapped arrays, for data that are larger than memory, or that
many fits share. It is written from front to back in blocks, and is there whole or not at all.

    indptr.npy indices.npy data.npy   the rows, as CSR: int64, int32, float32 or float64
    norm2.npy                         squared norms of the rows
    labels.npy | label_indptr.npy label_indices.npy    one label per row, or any number
    ids.npy id_ends.npy               names of the rows, as UTF-8, and where each ends
    vocabulary.json                   names of the columns
    recipe_*.npy                      what the recipe needs
    meta.json                         shape, types, blocks of rows, checksums of all of it
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.formats.labels import indicator
from sparsecluster.formats.source import Block, Labels, Source
from sparsecluster.rows.recipe import Recipe, with_arrays
from sparsecluster.rows.resources import available_memory, effective_n_threads
from sparsecluster.rows.rows import MAX_INDEX, Provenance, Rows, core_rows, mapped_csr
from sparsecluster.storage.store_files import (
    StoreError,
    StoreFiles,
    damaged,
    from_folder,
    has_meta,
    is_store,
    read_meta,
)
from sparsecluster.storage.store_writer import ENTRIES, HEADER
from sparsecluster.storage.tensors import NONSENSE

CHUNK_BYTES = 32 << 20  # of rows that are gone through in any order, where all are too many;
CHUNKS_OF_MEMORY = 64  # fewer where memory holds fewer of them
MANY_ROWS = 1 << 20  # for which a second, 32-bit indptr is too much
COMPARED = -1  # in place of a checksum
DAMAGED_FILES = {"features_checksum": "indices.npy", "values_checksum": "data.npy"}
# Others are read at opening.
READ_LATER = {"indptr", "indices", "data", "norm2", "labels", "ids", "id_ends"}

__all__ = ["StoreError", "StoreSource", "StoredRows", "is_store", "open_store"]


class StoredRows(Rows):
    """Rows of a store. They are looked at when they are first used, and again at every opening."""

    in_file = True

    def __init__(
        self,
        path: Path,
        files: StoreFiles,
        arrays: dict[str, np.ndarray],
        meta: dict[str, Any],
        provenance: Provenance,
    ) -> None:
        parts = (arrays["indptr"], arrays["indices"], arrays["data"])
        many = meta["n_rows"] > MANY_ROWS
        matrix = mapped_csr(*parts, meta["n_features"], keep_indptr=many)
        super().__init__(matrix, provenance=provenance)
        self.path = path
        self.files = files
        self.meta = meta
        self.arrays = arrays
        self._ids: np.ndarray | None = None
        self.streamed, self.direct = _too_large(matrix)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_store, (self.path,)

    @property
    def ids(self) -> np.ndarray | None:
        """Names of the rows, which are read when they are first asked for."""
        if self._ids is None and "ids" in self.arrays:
            self._ids = self.ids_between(0, self.meta["n_rows"])
        return self._ids

    def ids_between(self, begin: int, end: int) -> np.ndarray | None:
        """Names of some rows, which are next to each other; None where they have none."""
        if "ids" not in self.arrays:
            return None
        ends = self.arrays["id_ends"][max(begin - 1, 0) : end].tolist()
        ends = ends if begin else [0, *ends]
        if ends != sorted(ends) or ends[0] < 0 or ends[-1] > len(self.arrays["ids"]):
            raise damaged(self.path, "id_ends.npy is not as it was written")
        text = self.arrays["ids"][ends[0] : ends[-1]].tobytes()
        names = [text[one - ends[0] : two - ends[0]] for one, two in pairwise(ends)]
        try:
            decoded = [name.decode(errors="surrogatepass") for name in names]
        except UnicodeDecodeError:
            raise damaged(self.path, "ids.npy is not as it was written") from None
        return np.array(decoded, dtype=object)

    def checked(self) -> StoredRows:
        """The same rows, once they were compared with their checksums; that takes one pass."""
        if self._core is None:
            self._core = self.inspected(self, 0, self.n_rows, effective_n_threads(None))
        return self

    def part(self, first: int, last: int) -> StoredPart:
        """The rows of the blocks from the first to before the last, by `meta["blocks"]`, as rows of
        their own: nothing but what they need is read and compared with its checksums.
        """
        ends = [0, *self.meta["blocks"]]
        if not 0 <= first < last < len(ends):
            raise ValueError(f"The store has no blocks {first} to {last - 1}, but {len(ends) - 1}.")
        return self.between(ends[first], ends[last])

    def between(self, begin: int, end: int, *, n_threads: int | None = None) -> StoredPart:
        """Some rows, which are next to each other, in the same way."""
        return StoredPart(self, begin, end, effective_n_threads(n_threads))

    def inspected(
        self, rows: StoredRows | StoredPart, begin: int, end: int, n_threads: int
    ) -> _core.Rows:
        """The view of rows between two in the core, once they were compared with checksums."""
        if end - begin > MAX_INDEX:
            raise StoreError(
                f"{self.path} has {end - begin:,} rows here; one process takes at most 2**31 - 1. "
                f"Fit it with executor, on so many workers that each has fewer."
            )
        files, arrays, meta = self.files, self.arrays, self.meta
        whole = (begin, end) == (0, meta["n_rows"])
        blocks = files.blocks_of(meta, begin, end)
        try:
            core = core_rows(rows.matrix, chunk_bytes=_chunk_bytes() if rows.streamed else 0)
        except ValueError as error:
            raise damaged(self.path, str(error)) from None
        if rows.streamed:
            for name in ENTRIES:
                files.read_as_asked(name)
        if rows.direct:
            self._read_directly(core, begin, end, blocks, n_threads)
        fault, row = core.inspect(n_threads)
        if fault in DAMAGED_FILES:
            raise damaged(self.path, f"{DAMAGED_FILES[fault]} is not as it was written")
        if fault != "none":
            raise damaged(self.path, f"row {begin + row} is not as it was written ({fault})")
        if whole:
            files.verify(arrays, meta, n_threads, entries=not rows.direct)
        elif not (rows.direct or files.verified):
            for name in ENTRIES:
                files.verify_blocks(name, arrays, meta, blocks, n_threads)
        if rows.streamed:
            # Those in the file need no memory; what they were compared with is given back.
            core.take_norms(arrays["norm2"][begin:end])
            _core.give_back()
        return core

    def _read_directly(
        self, core: _core.Rows, begin: int, end: int, blocks: range, n_threads: int
    ) -> None:
        """Have rows read from the files, and whole blocks compared on the way; others are now."""
        files, arrays, meta = self.files, self.arrays, self.meta
        ends = np.array([0, *meta["blocks"]], dtype=np.int64)
        sums = {name: np.array(meta["checksums"][name], dtype=np.int64) for name in ENTRIES}
        for block in {blocks[0], blocks[-1]} if blocks else ():
            if begin <= ends[block] and ends[block + 1] <= end:
                continue
            for name in ENTRIES:
                files.verify_blocks(name, arrays, meta, range(block, block + 1), n_threads)
                sums[name][block] = COMPARED
        indices, data = ENTRIES
        first = int(arrays["indptr"][begin])
        core.read_from(
            (files.descriptor(indices), files.descriptor(data)),
            (
                HEADER + first * arrays[indices].itemsize,
                HEADER + first * arrays[data].itemsize,
            ),
            np.minimum(ends[blocks.start + 1 : blocks.stop + 1], end) - begin,
            sums[indices][blocks.start : blocks.stop],
            sums[data][blocks.start : blocks.stop],
        )


class StoredPart(Rows):
    """Some rows of a store, next to each other."""

    in_file = True

    def __init__(self, whole: StoredRows, begin: int, end: int, n_threads: int) -> None:
        if not 0 <= begin <= end <= whole.n_rows:
            raise ValueError(f"The store has no rows {begin} to {end - 1}, but {whole.n_rows}.")
        files, arrays, meta = whole.files, whole.arrays, whole.meta
        indptr = np.asarray(arrays["indptr"][begin : end + 1])
        files.verify_indptr(indptr, int(indptr[0]), int(indptr[-1]), meta["n_entries"])
        if not files.verified:
            blocks = files.blocks_of(meta, begin, end)
            files.verify_blocks("indptr", arrays, meta, blocks, n_threads)
        indices, data = (arrays[name][int(indptr[0]) : int(indptr[-1])] for name in ENTRIES)
        matrix = mapped_csr(indptr - indptr[0], indices, data, whole.n_features, keep_indptr=True)
        known = Provenance(feature_names=whole.feature_names, recipe=whole.recipe, first_row=begin)
        super().__init__(matrix, provenance=known)
        self.streamed, direct = _too_large(matrix)
        self.direct = direct and files.opened
        self._core = whole.inspected(self, begin, end, n_threads)
        self._place = whole.path, begin, end, meta["checksum"]

    def __reduce__(self) -> tuple[Any, ...]:
        return rows_between, self._place


def _chunk_bytes() -> int:
    """Two chunks are in memory at a time."""
    return min(CHUNK_BYTES, max(available_memory() // CHUNKS_OF_MEMORY, 1 << 20))


def _too_large(matrix: Any) -> tuple[bool, bool]:
    """Whether entries are read front to back because they take much of the memory, and whether
    they are read past the cache of the system because it cannot hold them."""
    available, needed = available_memory(), matrix.indices.nbytes + matrix.data.nbytes
    return needed > available // 2, needed > available // 5 * 4


def open_store(path: Any, *, verify: bool = False) -> StoredRows:
    """Open a store that :func:`convert` wrote.

    The arrays are memory-mapped: opening takes no time, and a fit reads what it needs; where the
    store is larger than memory, block by block past the cache of the system. When rows are first
    used they are read once to be checked against the checksums that were written with them: a fit
    from a damaged store is refused. A store may be replaced, as :func:`convert` does:
    what is open stays as it was. Its files must not be changed in place; a process that uses one
    while it is cut off ends with SIGBUS.

    Parameters
    ----------
    path : str or path
        The folder.
    verify : bool, default=False
        Whether to do that now.

    Returns
    -------
    Rows
        What every `fit` and `predict` takes in place of a matrix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsecluster import KMeans, convert, open_store
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "rows.svm").write_text("0 1:1\\n0 1:2\\n1 3:5\\n")
    >>> _ = convert(folder / "rows.svm", folder / "rows.store")
    >>> rows = open_store(folder / "rows.store")
    >>> rows.shape
    (3, 3)
    >>> KMeans(n_clusters=2, random_state=0).fit_predict(rows).tolist().count(0) in (1, 2)
    True
    """
    given, path = Path(path), Path(path).absolute()
    try:
        rows = from_folder(path, lambda folder: _open(path, folder))
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{given} is not a store. Make one with convert.") from None
    except OSError as error:
        raise StoreError(f"{given} cannot be read: {error.strerror}.") from None
    if verify and rows.direct:
        rows.checked()
    elif verify:
        rows.files.verify(rows.arrays, rows.meta, effective_n_threads(None))
    return rows


def rows_between(
    path: Any, begin: int, end: int, checksum: int, n_threads: int | None = None
) -> Rows:
    """Some rows of the store that has this checksum, which are next to each other, checked: no
    others are read."""
    stored = open_store(path)
    if stored.meta["checksum"] != checksum:
        raise StoreError(f"{path} is another store than at the beginning: it was replaced.")
    return stored.between(begin, end, n_threads=n_threads)


def open_unnamed(folder: Path, path: Path) -> StoredRows:
    """Open the folder of a store that is about to get this name."""
    path = path.absolute()
    return from_folder(folder, lambda opened: _open(path, opened))


def _open(path: Path, folder: int) -> StoredRows:
    has_meta(folder)
    files = StoreFiles(path, folder)
    meta = read_meta(path, files.read("meta.json"))
    arrays = {
        name: files.map(name, dtype, length) for name, (dtype, length) in meta["arrays"].items()
    }
    for name in arrays.keys() - READ_LATER:
        if [zlib.crc32(arrays[name].data)] != meta["checksums"][name]:
            raise damaged(path, f"{name}.npy is not as it was written")
    names = _vocabulary(path, files.read("vocabulary.json"), meta) if meta["named"] else None
    recipe = _recipe(path, arrays, meta["recipe"], names)
    return StoredRows(
        path,
        files,
        arrays,
        meta,
        Provenance(
            feature_names=names if recipe is None else recipe.column_names,
            labels=_labels(path, arrays, meta["n_labels"]),
            recipe=recipe,
        ),
    )


def _recipe(path: Path, arrays: dict[str, np.ndarray], state: Any, names: Any) -> Recipe | None:
    if state is None:
        return None
    try:
        return Recipe.from_state(with_arrays(state, arrays) | {"names": names})
    except NONSENSE as error:
        raise damaged(path, f"its recipe cannot be read ({error})") from None


def _vocabulary(path: Path, text: bytes, meta: dict[str, Any]) -> np.ndarray:
    try:
        names = json.loads(text) if zlib.crc32(text) == meta["vocabulary"] else None
    except (ValueError, RecursionError):
        names = None
    if not (
        isinstance(names, list)
        and (meta["recipe"] is not None or len(names) == meta["n_features"])
        and all(isinstance(name, str) for name in names)
    ):
        raise damaged(path, "vocabulary.json is not as it was written")
    return np.array(names, dtype=object)


def _labels(path: Path, arrays: dict[str, np.ndarray], n_labels: int | None) -> Any:
    """One label per row, an indicator matrix, or None."""
    if "label_indptr" not in arrays:
        return arrays.get("labels")
    try:
        return indicator(arrays["label_indptr"], arrays["label_indices"], n_labels)
    except ValueError as error:
        raise damaged(path, f"its labels are not as they were written ({error})") from None


class StoreSource(Source):
    """The rows of a store as blocks, to be read like any other file."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows.path)
        self.rows = rows
        self.n_features = self.rows.n_features
        self.n_labels = self.rows.meta["n_labels"]
        self.feature_names = self.rows.feature_names

    def blocks(self) -> Iterator[Block]:
        """The blocks of rows that were written together."""
        arrays = self.rows.arrays
        self.rows.checked()
        begin = 0
        for end in self.rows.meta["blocks"]:
            indptr = arrays["indptr"][begin : end + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            yield Block(
                indptr=indptr - indptr[0],
                indices=arrays["indices"][entries],
                data=arrays["data"][entries],
                labels=_labels_between(arrays, begin, end),
                ids=self.rows.ids_between(begin, end),
                done=end / self.rows.n_rows,
            )
            begin = end


def _labels_between(arrays: dict[str, np.ndarray], begin: int, end: int) -> Labels | None:
    if "labels" in arrays:
        indptr = np.arange(end - begin + 1, dtype=np.int64)
        return Labels(indptr=indptr, values=arrays["labels"][begin:end])
    if "label_indptr" not in arrays:
        return None
    indptr = arrays["label_indptr"][begin : end + 1]
    values = arrays["label_indices"][indptr[0] : indptr[-1]]
    return Labels(indptr=indptr - indptr[0], values=values.astype(np.float64))
