"""Write and read dataclasses of numbers, texts and arrays as one file: a zip archive of a JSON text and .npy
members.

No pickle: reading makes only the dataclasses that the reader asks for, and checks every field. Objects that
several records share (code, tables of functions) are written once and are shared again after reading.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.base.reading import reading

DOCUMENT = "document.json"
MOST_BYTES = 1 << 30
"""Largest file, unpacked: a larger one is refused before anything is read."""
MOST_DOCUMENT_BYTES = 1 << 27
"""Largest JSON text, which takes many times as much memory once it is read."""
HINT = "compile the program again"
_WORD = 1 << 63
"""Bound of whole numbers, which become 64-bit words: -_WORD <= n < _WORD."""
SHARED_FROM = 4
"""Tuples and mappings of this length or longer are shared when they occur again."""
_DTYPES = "biuf"
_T = TypeVar("_T")


def write_record(path: Path, kind: str, version: int, value: object) -> None:
    """Write a dataclass, whole or not at all. Raises OSError."""
    writer = _Writer()
    body = writer.encode(value)
    text = json.dumps({"kind": kind, "version": version, "value": body, "shared": writer.shared})
    members = {DOCUMENT: text.encode()}
    for index, array in enumerate(writer.arrays):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        members[f"{index}.npy"] = buffer.getvalue()
    temporary = path.with_name(path.name + ".part")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = _digest(members).encode()
    temporary.replace(path)


def read_record(path: Path, kind: str, version: int, type_: type[_T]) -> _T:
    """Read what `write_record` wrote. Raises FormatError, or OSError."""
    with reading(path, hint=HINT):
        members = _members(path)
        return _read_members(path, members, kind, version, type_)


def _read_members(path: Path, members: Mapping[str, bytes], kind: str, version: int, type_: type[_T]) -> _T:
    try:
        document = json.loads(members[DOCUMENT])
    except (KeyError, ValueError, RecursionError):
        raise FormatError(path, field=DOCUMENT, expected="a JSON text", hint="compile again") from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise FormatError(path, expected=f"a file of kind {kind}", hint="compile again")
    if document.get("version") != version:
        found = str(document.get("version"))[:20]
        raise FormatError(
            path, field="version", expected=str(version), found=found, hint="compile the program again"
        )
    shared = document.get("shared")
    reader = _Reader(path, members, shared if isinstance(shared, list) else [])
    return cast("_T", reader.decode(document.get("value"), type_, kind))


class _Writer:
    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.shared: list[Any] = []
        self._array_of: dict[int, int] = {}
        self._shared_of: dict[int, int] = {}
        self._seen: dict[int, object] = {}
        """Keeps what was seen alive, so that ids stay its own."""

    def encode(self, value: object) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.integer):
            return int(value)
        if isinstance(value, np.ndarray):
            return {"array": self._array(value)}
        if is_dataclass(value):
            return [self.encode(getattr(value, field.name)) for field in fields(value)]
        if not isinstance(value, Mapping | Sequence):
            raise TypeError(f"cannot write {type(value).__name__}")
        if len(value) < SHARED_FROM:
            return self._items(value)
        index = self._shared_of.get(id(value))
        if index is None:
            body = self._items(value)
            index = len(self.shared)
            self.shared.append(body)
            self._shared_of[id(value)] = index
            self._seen[id(value)] = value
        return {"shared": index}

    def _items(self, value: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
        if isinstance(value, Mapping):
            return [[self.encode(key), self.encode(item)] for key, item in value.items()]
        return [self.encode(item) for item in value]

    def _array(self, array: np.ndarray) -> int:
        index = self._array_of.get(id(array))
        if index is None:
            if array.dtype.kind not in _DTYPES:
                raise TypeError(f"cannot write an array of {array.dtype}")
            index = len(self.arrays)
            self.arrays.append(np.ascontiguousarray(array))
            self._array_of[id(array)] = index
            self._seen[id(array)] = array
        return index


class _Reader:
    def __init__(self, path: Path, members: Mapping[str, bytes], shared: list[Any]) -> None:
        self._path = path
        self._members = members
        self._shared = shared
        self._shared_values: dict[tuple[int, Any], object] = {}
        self._arrays: dict[int, np.ndarray] = {}

    def decode(self, body: Any, type_: Any, where: str) -> object:
        origin = get_origin(type_)
        if origin in (Union, UnionType):
            return self._union(body, get_args(type_), where)
        if type_ is NoneType:
            return body if body is None else self._fail(where, "nothing", body)
        if type_ in (bool, int, str):
            return body if _is_plain(body, type_) else self._fail(where, type_.__name__, body)
        if type_ is float:
            return float(body) if isinstance(body, int | float) else self._fail(where, "a number", body)
        if type_ is np.ndarray:
            return self._array(self._index(body, "array", where), where)
        if isinstance(body, dict):
            return self._of_shared(self._index(body, "shared", where), type_, where)
        if not isinstance(body, list):
            return self._fail(where, "a list", body)
        items = cast("list[Any]", body)
        if is_dataclass(type_):
            return self._dataclass(items, type_, where)
        if origin is tuple:
            return self._tuple(items, get_args(type_), where)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(items, get_args(type_), where)
        if origin is not None and issubclass(origin, Sequence):
            return [self.decode(item, get_args(type_)[0], where) for item in items]
        raise TypeError(f"cannot read {type_}")

    def _union(self, body: Any, choices: tuple[Any, ...], where: str) -> object:
        if body is None and NoneType in choices:
            return None
        rest = [choice for choice in choices if choice is not NoneType]
        for choice in rest[:-1]:
            if _is_plain(body, choice):
                return body
        return self.decode(body, rest[-1], where)

    def _dataclass(self, items: list[Any], type_: Any, where: str) -> object:
        hints = _hints(type_)
        if len(items) != len(hints):
            return self._fail(where, f"{len(hints)} fields", items)
        values = {
            name: self.decode(item, hint, f"{where}.{name}")
            for item, (name, hint) in zip(items, hints.items(), strict=True)
        }
        return type_(**values)

    def _tuple(self, items: list[Any], types: tuple[Any, ...], where: str) -> object:
        if len(types) == 2 and types[1] is Ellipsis:
            return tuple(self.decode(item, types[0], where) for item in items)
        if len(items) != len(types):
            return self._fail(where, f"{len(types)} entries", items)
        return tuple(self.decode(item, kind, where) for item, kind in zip(items, types, strict=True))

    def _mapping(self, items: list[Any], types: tuple[Any, ...], where: str) -> object:
        found: dict[Any, Any] = {}
        for item in items:
            if not isinstance(item, list) or len(cast("list[Any]", item)) != 2:
                return self._fail(where, "pairs", item)
            key = self.decode(item[0], types[0], where)
            found[key] = self.decode(item[1], types[1], where)
        return found

    def _of_shared(self, index: int, type_: Any, where: str) -> object:
        if not 0 <= index < len(self._shared):
            return self._fail(where, "a shared value", index)
        key = (index, type_)
        if key not in self._shared_values:
            body = self._shared[index]
            if not isinstance(body, list):
                return self._fail(where, "a list", body)
            self._shared_values[key] = self.decode(body, type_, where)
        return self._shared_values[key]

    def _index(self, body: Any, name: str, where: str) -> int:
        if not isinstance(body, dict) or type(cast("dict[str, Any]", body).get(name)) is not int:
            self._fail(where, f"a reference to {name}", body)
        return int(cast("dict[str, Any]", body)[name])

    def _array(self, index: int, where: str) -> np.ndarray:
        if index not in self._arrays:
            data = self._members.get(f"{index}.npy")
            if data is None:
                return self._fail(where, f"member {index}.npy", "nothing")
            self._arrays[index] = _array_of(data, self._path, where)
        return self._arrays[index]

    def _fail(self, where: str, expected: str, found: Any) -> Any:
        raise FormatError(
            self._path, field=where, expected=expected, found=repr(found)[:60], hint="compile again"
        )


def _is_plain(body: Any, type_: Any) -> bool:
    """Return whether a value is a bool, a text that can be written again, or a number of one word."""
    if type(body) is not type_:
        return False
    if type_ is int:
        return -_WORD <= body < _WORD
    return type_ is not str or body.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in body)


@cache
def _hints(type_: Any) -> dict[str, Any]:
    hints = get_type_hints(type_)
    return {field.name: hints[field.name] for field in fields(type_)}


def _array_of(data: bytes, path: Path, where: str) -> np.ndarray:
    stream = io.BytesIO(data)
    with reading(path, where, HINT):
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise FormatError(path, field=where, expected="an array", hint=HINT)
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    count = prod(int(size) for size in shape)
    rest = data[stream.tell() :]
    is_right = min(shape, default=0) >= 0 and max(shape, default=0) < _WORD and dtype.kind in _DTYPES
    if not is_right or is_fortran or count * dtype.itemsize != len(rest):
        raise FormatError(path, field=where, expected="whole numbers in rows", found=f"{len(rest)} bytes")
    return np.frombuffer(rest, dtype).reshape(shape).copy()


def _members(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            _bounded(path, archive.infolist())
            members = {info.filename: archive.read(info) for info in archive.infolist()}
            digest = archive.comment
    # zipfile raises NotImplementedError for a compression that it does not know.
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError):
        raise FormatError(path, expected="a file of npuviz", hint=HINT) from None
    except ValueError:
        raise FormatError(path, expected="a whole file", hint=HINT) from None
    if digest != _digest(members).encode():
        raise FormatError(path, expected="unchanged content", hint=HINT)
    return members


def _bounded(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse an archive that would take much memory, or in which two members have the same name."""
    sizes = {info.filename: info.file_size for info in members}
    total = sum(info.file_size for info in members)
    if total > MOST_BYTES:
        raise FormatError(path, expected=f"at most {MOST_BYTES} bytes", found=f"{total} bytes")
    if sizes.get(DOCUMENT, 0) > MOST_DOCUMENT_BYTES:
        expected = f"at most {MOST_DOCUMENT_BYTES} bytes"
        raise FormatError(path, field=DOCUMENT, expected=expected, found=f"{sizes[DOCUMENT]} bytes")
    if len(sizes) != len(members):
        raise FormatError(path, expected="a name for each member", found="a name twice", hint=HINT)


def _digest(members: Mapping[str, bytes]) -> str:
    total = sha256()
    for name in sorted(members):
        total.update(name.encode() + b"\0" + len(members[name]).to_bytes(8, "little") + members[name])
    return total.hexdigest()
