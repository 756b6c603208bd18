"""Values and arrays in one file that holds no code: safetensors with a JSON document and checksums.

The file is read through a memory map, so that opening it takes as long as its document does.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap as mmap_
import os
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.rows import MAX_INDEX, check_structure

ENTRY, CHECKSUM = "sparsecluster", "sparsecluster.crc32"  # in the metadata of safetensors
LARGEST_HEADER = 100_000_000  # as safetensors has it
SMALL_FILE = 64 << 20  # bytes; the checksums of so many take some milliseconds
LONG_LIST = 100  # strings that are better not written out in JSON
DTYPES = {f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)}
DTYPES |= {f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)}
DTYPES |= {f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}
# What a description can be wrong by in ways that are not foreseen one by one.
NONSENSE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class ForeignFile(ValueError):
    """A file of another kind."""


class Names:
    """Names in a memory map: like an array of str, decoded when they are used.

    A copy or a pickle of it is an array of str.
    """

    def __init__(self, text: np.ndarray, offsets: np.ndarray) -> None:
        require(text.dtype == np.uint8 and text.ndim == 1, "names are not bytes")
        require(offsets.dtype == np.int64 and offsets.ndim == 1, "offsets of names are not int64")
        require(len(offsets) >= 1, "names without offsets")
        require(offsets[0] == 0 and offsets[-1] == len(text), "offsets of names do not fit")
        self._text, self._offsets = text, offsets
        self._decoded: np.ndarray | None = None

    def _name(self, begin: Any, end: Any) -> str:
        try:
            return self._text[begin:end].tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(
                f"The file has names that are not UTF-8 (from byte {begin} of them on): it was "
                f"changed. Load it with verify=True to see where."
            ) from None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def shape(self) -> tuple[int]:
        """As an array has it."""
        return (len(self),)

    def __getitem__(self, key: Any) -> Any:
        if self._decoded is None and isinstance(key, (int, np.integer)) and 0 <= key < len(self):
            return self._name(self._offsets[key], self._offsets[key + 1])
        return np.asarray(self)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(np.asarray(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._decoded is None:
            decoded = np.empty(len(self), dtype=object)
            ends = self._offsets.tolist()
            decoded[:] = [self._name(*pair) for pair in pairwise(ends)]
            self._decoded = decoded
        return np.array(self._decoded, dtype=dtype, copy=bool(copy) or dtype not in (None, object))

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    def __ne__(self, other: object) -> Any:
        return np.asarray(self) != other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (np.asarray(self),)

    def __repr__(self) -> str:
        return f"<{len(self)} names in a file>"


class Packer:
    """Turns values into what JSON can say and, for arrays and many strings, tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def pack(self, value: Any, name: str) -> Any:
        """What JSON says for a value; a TypeError names what cannot be kept."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        for kind in (str, int):
            if isinstance(value, kind):
                return kind(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        if isinstance(value, dict):
            return self._pack_dict(value, name)
        if isinstance(value, (list, tuple)):
            if len(value) > LONG_LIST and all(isinstance(item, str) for item in value):
                packed = self._pack_strings(value, name)
                return packed | {"$is": type(value).__name__}
            items = [self.pack(item, f"{name}.{i}") for i, item in enumerate(value)]
            return {"$tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, Names):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            return self._pack_array(value, name)
        if sp.issparse(value) and value.ndim == 2:
            matrix = sp.csr_array(value)
            for part in ("data", "indices", "indptr"):
                self._add(getattr(matrix, part), f"{name}.{part}")
            return {"$csr": name, "shape": [int(n) for n in matrix.shape]}
        raise TypeError(f"{name} cannot be kept in a file: it is of the type {type(value)}")

    def _pack_dict(self, value: dict[Any, Any], name: str) -> dict[str, Any]:
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(
                    f"{name} cannot be kept in a file: its key {key!r} is not a string, or begins "
                    f"with $"
                )
        return {str(key): self.pack(item, f"{name}.{key}") for key, item in value.items()}

    def _pack_array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype.kind == "b":
            self._add(array.view(np.uint8), name)
            return {"$tensor": name, "$is": "bool"}
        if array.dtype.kind in "UO":
            if array.ndim != 1 or not all(isinstance(item, str) for item in array):
                raise TypeError(f"{name} cannot be kept in a file: not an array of numbers or str")
            return self._pack_strings(array, name)
        self._add(array, name)
        return {"$tensor": name}

    def _pack_strings(self, strings: Any, name: str) -> dict[str, Any]:
        encoded = [item.encode("utf-8", "surrogatepass") for item in strings]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(item) for item in encoded], out=offsets[1:])
        self._add(np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.text")
        self._add(offsets, f"{name}.offsets")
        return {"$strings": name}

    def _add(self, array: np.ndarray, name: str) -> None:
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _NAMES:
            raise TypeError(f"{name} cannot be kept in a file: it is an array of {array.dtype}")
        if name in self.tensors:
            raise TypeError(f"{name} cannot be kept in a file: two values have that name")
        self.tensors[name] = np.asarray(array, dtype=dtype, order="C")


def unpack(packed: Any, tensors: dict[str, np.ndarray]) -> Any:
    """What was packed, with arrays that are views of the tensors; a ValueError says what is wrong.

    Sparse arrays are safe to use: their indices lie within their shape.
    """
    if isinstance(packed, list):
        return [unpack(item, tensors) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if not any(key.startswith("$") for key in packed):
        return {key: unpack(item, tensors) for key, item in packed.items()}
    kind = packed.get("$is")
    if "$float" in packed:
        return float(packed["$float"])
    if "$tuple" in packed:
        return tuple(unpack(packed["$tuple"], tensors))
    if "$strings" in packed:
        name = packed["$strings"]
        names = Names(_part(tensors, name, "text"), _part(tensors, name, "offsets"))
        return names if kind is None else list(names) if kind == "list" else tuple(names)
    if "$csr" in packed:
        return _csr(packed, tensors)
    array = tensors.get(packed.get("$tensor", ""))
    if array is None:
        raise ValueError("a value is of an unknown kind, or its array is missing")
    return array.astype(bool) if kind == "bool" else array


def _part(tensors: dict[str, np.ndarray], name: Any, part: str) -> np.ndarray:
    array = tensors.get(f"{name}.{part}")
    if array is None:
        raise ValueError(f"the array {name}.{part} is missing")
    return array


def _csr(packed: dict[str, Any], tensors: dict[str, np.ndarray]) -> sp.csr_array:
    """A sparse array that neither scipy nor the core can read past its ends."""
    name, shape = packed["$csr"], _shape(packed.get("shape"))
    data, indices, indptr = (_part(tensors, name, part) for part in ("data", "indices", "indptr"))
    require(len(shape) == 2 and max(shape) <= MAX_INDEX, f"{name} is of a wrong shape")
    require(
        indices.dtype == indptr.dtype
        and indices.dtype in (np.int32, np.int64)
        and data.dtype in DTYPES.values()
        and data.ndim == indices.ndim == indptr.ndim == 1,
        f"the arrays of {name} are of the wrong type",
    )
    require(
        len(indptr) == shape[0] + 1 and indptr[-1] == len(data),
        f"the arrays of {name} contradict each other",
    )
    return check_structure(sp.csr_array((data, indices, indptr), shape=shape), name)


def _shape(value: Any) -> tuple[int, ...]:
    whole = isinstance(value, list) and all(type(n) is int and 0 <= n < 2**62 for n in value)
    require(whole, "has an array without a shape")
    return tuple(value)


def require(condition: bool, otherwise: str) -> None:
    """Refuse a file of which this does not hold."""
    if not condition:
        raise ValueError(otherwise)


def write_tensors(path: Any, document: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write a file in place: tensors, and a document that gets their types and checksums too."""
    table = {name: [*_kind(array), _crc32(array)] for name, array in tensors.items()}
    text = json.dumps(document | {"tensors": table}, allow_nan=False, separators=(",", ":"))
    header: dict[str, Any] = {"__metadata__": {ENTRY: text, CHECKSUM: _checksum(text)}}
    # The widest types first, so that all are aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    end = 0
    for name in names:
        (dtype, shape), begin = _kind(tensors[name]), end
        end += tensors[name].nbytes
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    require(len(encoded) <= LARGEST_HEADER, "There is too much that is not an array.")
    # By hand, because the safetensors package holds all in memory or renames a file of its own.
    with open(path, "r+b") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in names:
            file.write(_bytes(tensors[name]))


def _kind(array: np.ndarray) -> tuple[str, list[int]]:
    return _NAMES[array.dtype.newbyteorder("<")], [int(n) for n in array.shape]


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _crc32(array: np.ndarray) -> int:
    return zlib.crc32(_bytes(array))


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class TensorFile:
    """A file that was opened: its document, checked by its checksum, and where its tensors lie."""

    def __init__(self, path: str | os.PathLike[str], *, mmap: bool) -> None:
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            require(self.size > 8, "is too short for a safetensors file")
            if mmap:
                self._content: Any = mmap_.mmap(file.fileno(), self.size, access=mmap_.ACCESS_READ)
            else:
                self._content = bytearray(self.size)
                require(file.readinto(self._content) == self.size, "changes while it is read")
        length = int.from_bytes(self._content[:8], "little")
        self._begin = 8 + length
        self._header = self._read_header(length)
        metadata = self._header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or not isinstance(metadata.get(ENTRY), str):
            raise ForeignFile("is a safetensors file, but none that sparsecluster wrote")
        text = metadata[ENTRY]
        require(metadata.get(CHECKSUM) == _checksum(text), "has a description that was changed")
        self.document = json.loads(text)
        require(isinstance(self.document, dict), "has no description")

    def _read_header(self, length: int) -> dict[str, Any]:
        if length <= LARGEST_HEADER and 8 + length <= self.size:
            with contextlib.suppress(ValueError, RecursionError):
                header = json.loads(self._content[8 : self._begin].decode())
                if isinstance(header, dict):
                    return header
        if self._content[0] == 0x80 and self._content[1] in range(2, 6):
            raise ForeignFile("seems to be a pickle, which is never opened: it could run any code")
        raise ForeignFile("is not a file that sparsecluster wrote, or only its beginning")

    def tensors(self, *, verify: bool) -> dict[str, np.ndarray]:
        """Views of the arrays; with `verify` they are read and held against their checksums."""
        table = self.document.get("tensors")
        require(
            isinstance(table, dict) and table.keys() == self._header.keys(),
            "has other arrays than its description says",
        )
        places = sorted(map(self._place, self._header), key=lambda place: place[1:3])
        end_before = 0
        found = {}
        for name, begin, end, dtype, shape in places:
            require(begin == end_before, f"has a gap before {name}")
            end_before = end
            require(self._begin + end <= self.size, "is cut off")
            # Each array has a base of its own size: of parts of larger ones scipy makes copies.
            array = np.frombuffer(
                self._content, dtype, (end - begin) // dtype.itemsize, self._begin + begin
            ).reshape(shape)
            require(array.flags.aligned, f"has {name} out of line")
            kind, expected = table[name][:2], table[name][-1]
            require(kind == [*_kind(array)], f"describes {name} in two ways")
            if verify and _crc32(array) != expected:
                raise ValueError(f"has wrong values in {name}: their checksum is another one")
            found[name] = array
        require(self._begin + end_before == self.size, "has more in it than it says")
        return found

    def _place(self, name: str) -> tuple[str, int, int, np.dtype, tuple[int, ...]]:
        """Where a tensor lies and what it is; its size is that of its shape."""
        entry = self._header[name]
        dtype, shape = DTYPES.get(entry["dtype"]), _shape(entry["shape"])
        offsets = _shape(entry["data_offsets"])
        require(len(offsets) == 2, f"has an array {name} without a beginning and an end")
        begin, end = offsets
        if dtype is None or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"has an array {name} of an unknown type, or of a wrong size")
        return name, begin, end, dtype, shape
