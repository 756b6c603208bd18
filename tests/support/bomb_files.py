"""Small files that stand for gigabytes, in every format. As a program: reads and converts each of
the files that it is given, in a process of its own that may not take another gigabyte of memory or
of disk, and prints what came of it."""

import bz2
import gzip
import json
import os
import resource
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse

GIGABYTE = 1 << 30
PIECE = 1 << 24  # bytes that are compressed once, and then repeated
MATRIX = "%%MatrixMarket matrix "


def repeated(pack, text, n_bytes, start=b""):
    """So many bytes of a text, compressed: all compressions can be put one after the other."""
    piece = pack(text * (PIECE // len(text)))
    return (pack(start) if start else b"") + piece * (n_bytes // PIECE)


def zstd(text):
    import zstandard

    return zstandard.compress(text)


def gz(text):
    return gzip.compress(text, 6)


def compressed_texts(folder):
    """Text of all kinds that decompresses to gigabytes."""
    contents = {
        "line.txt.zst": repeated(zstd, b"a", 4 * GIGABYTE),
        "words.txt.zst": repeated(zstd, b"aa bb ", 4 * GIGABYTE),
        "rows.txt.zst": repeated(zstd, b"aa" * 50 + b"\n", 4 * GIGABYTE),
        "empty.txt.gz": repeated(gz, b"\n", GIGABYTE),
        "line.jsonl.gz": repeated(gz, b"a", 4 * GIGABYTE, b'{"text": "'),
        "rows.jsonl.gz": repeated(gz, b'"' + b"aa" * 50 + b'"\n', 4 * GIGABYTE),
        "blank.jsonl.gz": repeated(gz, b" ", 4 * GIGABYTE),
        "nested.jsonl.zst": repeated(zstd, b"[{},", 4 * GIGABYTE),
        "fields.csv.zst": repeated(zstd, b",", 4 * GIGABYTE),
        "numbers.csv.zst": repeated(zstd, b"1,2\n", 4 * GIGABYTE, b"x,y\n"),
        "quoted.csv.zst": repeated(zstd, b'aa\n","', 4 * GIGABYTE, b'text\n"'),
        "line.svm.zst": repeated(zstd, b"1", 4 * GIGABYTE, b"1 1:1\n1 2:"),
        "labels.svm.gz": repeated(gz, b"1\n", 4 * GIGABYTE, b"1 1:1\n"),
        "blank.svm.bz2": repeated(bz2.compress, b"\n", 4 * GIGABYTE, b"1 1:1\n"),
        "comments.mtx.zst": repeated(
            zstd, b"%" * 99 + b"\n", 4 * GIGABYTE, f"{MATRIX}coordinate real general\n".encode()
        ),
        "banner.mtx.zst": repeated(zstd, b" ", 4 * GIGABYTE, MATRIX.encode()),
        "cells.mtx.gz": repeated(
            gz, b"0\n", 4 * GIGABYTE, f"{MATRIX}array real general\n2147483647 1\n".encode()
        ),
        "entries.mtx.gz": repeated(
            gz,
            b"1 1 1\n",
            4 * GIGABYTE,
            f"{MATRIX}coordinate real general\n1 1 715827872\n".encode(),
        ),
        "docword.x.txt": b"1\n1000000000\n1\n1 1 1\n",
        "vocab.x.txt.gz": repeated(gz, b"\n", 4 * GIGABYTE),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents if not name.startswith("vocab")]


def plain_texts(folder):
    """Text that claims much, or costs more than its length."""
    contents = {
        "rows.mtx": f"{MATRIX}coordinate real general\n2147483647 1 1\n1 1 1\n".encode(),
        "shape.mtx": f"{MATRIX}array real general\n2147483647 0\n".encode(),
        "docword.y.txt": b"2147483647\n1\n1\n1 1 1\n",
        "lists.jsonl": b"[" + b"{}," * 5_500_000,
        "deep.jsonl": b"[" * 10_000_000,
        "spaces.txt": b" " * 60_000 + b"xy\n",
        "labels.svm": b"1 2147483646 2147483647\n2147483646,1 2147483645:1\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def many_files(folder):
    """Folders of files each of which is small enough."""
    for name in ("texts", "lines", "empty"):
        (folder / name).mkdir()
    text, lines = gz(b"aa bb " * 2_500_000), gz(b'{"text": "aa"}\n' * 1_000_000)
    for number in range(300):
        (folder / f"texts/{number}.txt.gz").write_bytes(text)
        (folder / f"lines/{number}.jsonl.gz").write_bytes(lines)
    (folder / "cells.csv").write_bytes(b"," * 12_000_000 + b"\n" + b"1," * 6_000_000 + b"1\n")
    scipy.sparse.save_npz(folder / "empty/0.npz", scipy.sparse.csc_array((1_000_000, 3)))
    for number in range(1, 300):
        (folder / f"empty/{number}.npz").write_bytes((folder / "empty/0.npz").read_bytes())
    return [folder / name for name in ("texts", "lines", "empty", "cells.csv")]


def npy_header(shape, descr="<i4", length=None):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    if length is None:
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + text


def write_npz(path, arrays):
    """An .npz file of arrays, or of (start, number of zero bytes behind it)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                if isinstance(array, tuple):
                    start, n_zeros = array
                    file.write(start)
                    for _ in range(n_zeros // PIECE):
                        file.write(bytes(PIECE))
                else:
                    np.lib.format.write_array(file, np.asanyarray(array))


def matrices(folder):
    """Files of numpy and scipy."""
    none, ones = np.zeros(0, np.int32), np.ones(1, np.int32)
    huge = 2**31 - 1
    zeros = 8 * PIECE
    many = npy_header((zeros,), "|i1"), zeros
    files = {
        "coo": {"format": b"coo", "shape": [huge, 3], "row": none, "col": none, "data": none},
        "one": {"format": b"coo", "shape": [huge, 3], "row": ones, "col": ones, "data": ones},
        "csc": {"format": b"csc", "shape": [huge, 1], "indptr": [0, 0], "indices": none}
        | {"data": none},
        "dia": {"format": b"dia", "shape": [huge, 1], "offsets": [0], "data": [[1.0]]},
        "bsr": {"format": b"bsr", "shape": [huge, 1], "indptr": [0, 0], "indices": none}
        | {"data": np.zeros((0, huge, 1))},
        "name": {"format": (npy_header((), f"|S{5 * zeros}"), 5 * zeros)},
        "same": {"format": b"coo", "shape": [1, 1], "row": many, "col": many, "data": many},
        "empty": {"format": b"csr", "shape": [zeros - 1, 1], "indices": none, "data": none}
        | {"indptr": many},
    }
    for name, arrays in files.items():
        write_npz(folder / f"{name}.npz", arrays)
    (folder / "rows.npy").write_bytes(npy_header((huge, 0)))
    (folder / "header.npy").write_bytes(npy_header((1, 1), length=2**32 - 1))
    (folder / "deep.npy").write_bytes(npy_header("-" * 9000 + "1"))
    names = [*(f"{name}.npz" for name in files), "rows.npy", "header.npy", "deep.npy"]
    return [folder / name for name in names]


def deflated(n_bytes):
    """So many zeros as zlib would compress them, but at once."""
    packer = zlib.compressobj(6)
    start = packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = struct.pack(">I", (n_bytes % 65521 << 16) + 1)
    return start + start[2:] * (n_bytes // PIECE - 1) + b"\x03\x00" + checksum


def annotated(folder):
    """Files of AnnData."""
    import h5py

    huge, options = 2**31 - 1, {"chunks": (1 << 16,), "compression": "gzip"}

    def sparse(name, kind, shape, **arrays):
        with h5py.File(folder / name, "w") as file:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": f"{kind}_matrix", "shape": shape})
            for array, value in arrays.items():
                if isinstance(value, int):
                    group.create_dataset(array, (value,), np.int32, **options)
                else:
                    group.create_dataset(array, data=value)
        return folder / name

    none = np.zeros(0, np.int32)
    with h5py.File(folder / "dense.h5ad", "w") as file:
        file.create_dataset("X", (huge, 1), "f4", chunks=(1 << 16, 1), compression="gzip")
    with h5py.File(folder / "chunk.h5ad", "w") as file:
        cells = file.create_dataset("X", (10, 1), "f4", chunks=(10, 1), compression="gzip")
        cells.id.write_direct_chunk((0, 0), deflated(96 * PIECE))
    with h5py.File(folder / "wide_chunk.h5ad", "w") as file:
        whole = {"chunks": (GIGABYTE, 1), "maxshape": (None, 1), "compression": "gzip"}
        cells = file.create_dataset("X", (10, 1), "i1", **whole)
        cells.id.write_direct_chunk((0, 0), deflated(GIGABYTE))
    with h5py.File(folder / "names.h5ad", "w") as file:
        file["X"] = np.ones((2, 4000))
        index = file.create_dataset("var/_index", (4000,), h5py.string_dtype())
        index[0] = "a" * 1_000_000
    repeat_first_name(folder / "names.h5ad", 4000)
    return [
        sparse("rows.h5ad", "csr", (huge, 1), indptr=huge + 1, indices=none, data=none),
        sparse("entries.h5ad", "csr", (1, 9), indptr=[0, huge], indices=huge, data=huge),
        sparse("csc.h5ad", "csc", (huge, 1), indptr=[0, 0], indices=none, data=none),
        *(folder / f"{name}.h5ad" for name in ("dense", "chunk", "wide_chunk", "names")),
    ]


def repeat_first_name(path, n_names):
    """Have all names of variables be at the place of the first."""
    content = path.read_bytes()
    # Each is a length of 4 bytes, an address of 8 and a number of 4.
    first = content.index(struct.pack("<I", 1_000_000))
    name = content[first : first + 16]
    path.write_bytes(content[:first] + name * n_names + content[first + 16 * n_names :])


def tables(folder):
    """Files of Parquet and Arrow."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    def lists(n_rows, n_entries):
        offsets = np.zeros(n_rows + 1, np.int32)
        offsets[-1] = n_entries
        entries = pa.array(np.zeros(n_entries, np.int8))
        column = pa.ListArray.from_arrays(offsets, entries)
        return pa.table({"indices": column, "values": column})

    far = pa.table({"row": [0, 2**31 - 2], "column": [0, 0], "value": [1.0, 1.0]})
    pyarrow.parquet.write_table(far, folder / "far.parquet")
    pyarrow.feather.write_feather(far, folder / "far.feather")
    long, empty = lists(1, 6 * 10**7), lists(3 * 10**7, 0)
    pyarrow.parquet.write_table(long, folder / "long.parquet")
    pyarrow.parquet.write_table(
        long, folder / "packed.parquet", compression="zstd", use_dictionary=False
    )
    pyarrow.parquet.write_table(empty, folder / "empty.parquet")
    pyarrow.feather.write_feather(long, folder / "long.feather", compression="zstd")
    with pa.ipc.new_stream(
        str(folder / "long.arrow"),
        long.schema,
        options=pa.ipc.IpcWriteOptions(compression="zstd"),
    ) as writer:
        writer.write_table(long)
    words = pa.DictionaryArray.from_arrays(np.zeros(10**7, np.int8), ["aa " * 10**5])
    pyarrow.parquet.write_table(pa.table({"text": words}), folder / "words.parquet")
    pyarrow.feather.write_feather(
        pa.table({"text": words}), folder / "words.feather", compression="zstd"
    )
    zeros = pa.table({name: np.zeros(10**8, np.int8) for name in "xy"})
    pyarrow.parquet.write_table(zeros, folder / "zeros.parquet")
    names = ("far", "long", "packed", "empty", "words", "zeros")
    tables = [folder / f"{name}.parquet" for name in names]
    others = ("far.feather", "long.feather", "long.arrow", "words.feather")
    return [*tables, *(folder / name for name in others)]


def outcome(action, path):
    """What an action said of a file: nothing where it took it."""
    from sparsecluster.formats.source import ReadError

    try:
        action(path)
    except ReadError as error:
        return str(error)
    return ""


def watch(path):
    """Read and convert a file in a process of its own; what it said, and what it took."""
    from sparsecluster import convert, read

    out = path.with_name(f"{path.name}.store")
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        status = Path("/proc/self/status").read_text()
        now = int(status.split("VmSize:")[1].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (now + GIGABYTE, now + GIGABYTE))
        resource.setrlimit(resource.RLIMIT_FSIZE, (GIGABYTE // 4, GIGABYTE // 4))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        try:
            said = [outcome(read, path), outcome(lambda path: convert(path, out), path)]
        except BaseException as error:
            said = [f"{type(error).__name__}: {error}"[:500]]
        os.write(send, json.dumps(said).encode()[:60_000])
        os._exit(0)
    os.close(send)
    with open(receive, "rb") as pipe:
        said = pipe.read()
    _, status, usage = os.wait4(child, 0)
    disk = sum(one.stat().st_size for one in out.glob("*")) if out.exists() else 0
    return {
        "said": json.loads(said) if said else [f"ended with status {status}"],
        "memory": usage.ru_maxrss * 1024,
        "disk": disk,
    }


if __name__ == "__main__":
    import sparsecluster.prepare.read  # noqa: F401  (before the children start)

    for name in sys.argv[1:]:
        result = {"name": Path(name).name, **watch(Path(name))}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
