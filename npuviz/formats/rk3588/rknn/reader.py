"""Read containers `.rknn` of version 6 for the RK3588 into the records of `model`.

Header: "RKNN", u32 0, u64 version, u64 payload size; from byte 64 on the payload, a FlatBuffer with the
identifier "RKNN"; then u64 length and a JSON document (source: M DER).
"""

import struct
from pathlib import Path
from typing import Any

import orjson

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_file
from npuviz.formats.rk3588.rknn.flatbuffer import FlatBuffer, FlatTable
from npuviz.formats.rk3588.rknn.model import Relocation, Rknn, RknnGraph, RknnNode, RknnTensor

FILE_LIMIT = 2 << 30
RANK_LIMIT = 256
"""Longest shape; 24 numbers were seen in a public model."""
JSON_LIMIT = 64 << 20

_MAGIC, _ENCRYPTED = b"RKNN", b"CYPTRKNN"
_HEADER = struct.Struct("<4sIQQ")
_PAYLOAD = 0x40
_VERSION = 6


def read_rknn(path: Path) -> Rknn:
    """Read the container in a file.

    Raises FormatError if it cannot be read, is encrypted, has another version, is cut or damaged.
    """
    return parse_rknn(read_file(path, FILE_LIMIT), str(path))


def is_rknn(head: bytes) -> bool:
    """Whether the first 8 bytes of a file are those of a container, readable or not."""
    return head[:4] == _MAGIC or head[:8] == _ENCRYPTED


def parse_rknn(data: bytes, file: str = "rknn") -> Rknn:
    """Parse the container in `data`; raises as `read_rknn` does."""
    size = _payload_size(data, file)
    payload = data[_PAYLOAD : _PAYLOAD + size]
    document = _document(data, _PAYLOAD + size, file)
    root = FlatBuffer(payload, file=file, at=_PAYLOAD).root(_MAGIC)
    blobs: list[bytes] = []
    offsets: list[int] = []
    for table in root.tables(44, "blobs"):
        start, blob = table.data_at(4, "data")
        blobs.append(blob)
        offsets.append(_PAYLOAD + start)
    return Rknn(
        graphs=tuple(_graph(table) for table in root.tables(8, "graphs")),
        blobs=tuple(blobs),
        platform=root.text(20, "platform"),
        compiler=root.text(18, "compiler"),
        source=root.text(22, "source"),
        format=root.text(6, "format"),
        generator=root.text(10, "generator"),
        input_json=root.text(28, "input_json"),
        output_json=root.text(30, "output_json"),
        json=document,
        file=file,
        blob_offsets=tuple(offsets),
    )


def _payload_size(data: bytes, file: str) -> int:
    if data[:8] == _ENCRYPTED:
        raise FormatError(
            file,
            offset=0,
            field="signature",
            expected="RKNN",
            found="CYPTRKNN, an encrypted model",
            hint="export the model without encryption",
        )
    if len(data) < _PAYLOAD:
        raise FormatError(
            file,
            offset=len(data),
            field="header",
            expected=f"{_PAYLOAD} bytes",
            found=f"{len(data)}",
            hint="the file is cut",
        )
    magic, zero, version, size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError(file, offset=0, field="signature", expected="RKNN", found=repr(magic))
    if version != _VERSION:
        raise FormatError(
            file,
            offset=8,
            field="version",
            expected=str(_VERSION),
            found=str(version),
            hint="convert the model with rknn-toolkit2 2.x",
        )
    if zero:
        raise FormatError(file, offset=4, field="header", expected="0", found=str(zero))
    if size < 8 or size > len(data) - _PAYLOAD:
        raise FormatError(
            file,
            offset=16,
            field="payload size",
            expected=f"8 to {len(data) - _PAYLOAD} bytes, what the file holds",
            found=str(size),
            hint="the file is cut or damaged",
        )
    return size


def _document(data: bytes, at: int, file: str) -> dict[str, Any]:
    length = int.from_bytes(data[at : at + 8], "little")
    if len(data) < at + 8 or not 2 <= length <= min(len(data) - at - 8, JSON_LIMIT):
        raise FormatError(
            file,
            offset=at,
            field="JSON length",
            expected=f"2 to {max(len(data) - at - 8, 2)}, what the file holds behind the payload",
            found=str(length) if len(data) >= at + 8 else "the end of the file",
            hint="the file is cut or damaged",
        )
    try:
        found = orjson.loads(data[at + 8 : at + 8 + length])
    except orjson.JSONDecodeError as error:
        raise FormatError(
            file, offset=at + 8 + error.pos, field="JSON", expected="a JSON document", found=error.msg
        ) from None
    if not isinstance(found, dict):
        raise FormatError(file, offset=at + 8, field="JSON", expected="an object", found=type(found).__name__)
    return found


def _graph(table: FlatTable) -> RknnGraph:
    tensors = tuple(_tensor(each) for each in table.tables(4, "tensors"))
    nodes = tuple(_node(each, len(tensors)) for each in table.tables(6, "nodes"))
    starts = table.integers(24, "plan_starts")
    return RknnGraph(
        tensors,
        nodes,
        _indices(table, 8, "inputs", len(tensors)),
        _indices(table, 10, "outputs", len(tensors)),
        tuple(entry for each in table.tables(18, "relocations") for entry in _relocations(each)),
        starts[2:5],
    )


def _tensor(table: FlatTable) -> RknnTensor:
    return RknnTensor(
        name=table.text(14, "name"),
        dtype_code=table.byte(4, "dtype"),
        kind_code=table.byte(8, "kind"),
        shape=_shape(table, 12, "shape"),
        packed_shape=_shape(table, 10, "packed_shape"),
        size=_count(table, 28, "size"),
        place=_count(table, 30, "place"),
        blob=_count(table, 40, "blob"),
    )


def _shape(table: FlatTable, slot: int, name: str) -> tuple[int, ...]:
    shape = table.integers(slot, name)
    if len(shape) > RANK_LIMIT:
        raise table.fail(name, f"at most {RANK_LIMIT} dimensions", str(len(shape)))
    return shape


def _count(table: FlatTable, slot: int, name: str) -> int:
    value = table.integer(slot, name)
    if value < 0:
        raise table.fail(name, "at least 0", str(value))
    return value


def _node(table: FlatTable, tensors: int) -> RknnNode:
    return RknnNode(
        type=table.text(6, "type"),
        name=table.text(8, "name"),
        inputs=_indices(table, 12, "inputs", tensors),
        outputs=_indices(table, 14, "outputs", tensors),
        task_counts=table.integers(24, "task_counts"),
        attributes=table.data(22, "attributes"),
    )


def _indices(table: FlatTable, slot: int, name: str, tensors: int) -> tuple[int, ...]:
    found = table.integers(slot, name)
    for each in found:
        if not -1 <= each < tensors:
            raise table.fail(name, f"tensors 0 to {tensors - 1}, or -1", str(each))
    return found


def _relocations(table: FlatTable) -> list[Relocation]:
    """Read one tensor's entries: (offset, word) in slot 6; (1, core) in slot 8, which old compilers omit."""
    name = table.text(4, "tensor")
    places = table.pairs(6, "places").tolist()
    cores = table.pairs(8, "cores").tolist() or [[1, 0]] * len(places)
    if len(cores) != len(places):
        raise table.fail("cores", f"{len(places)} entries, one a place", str(len(cores)))
    return [
        Relocation(name, offset, word, core) for (offset, word), (_, core) in zip(places, cores, strict=True)
    ]
