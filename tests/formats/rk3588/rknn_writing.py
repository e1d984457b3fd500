"""Containers `.rknn` of version 6, written from the records of `rknn_model`.

Enough for `parse_rknn` to read the same model again; the vendor runtime wants more slots than are known.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import flatbuffers
import orjson
from flatbuffers.builder import BuilderSizeError

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.rknn.model import Relocation, Rknn, RknnGraph, RknnNode, RknnTensor

_Item = TypeVar("_Item")

_HEADER_BYTES = 0x40
_PLAN_STARTS = 2
"""Numbers before the plan starts; 0 in all public models."""


def write_rknn(path: Path, model: Rknn) -> None:
    """Writes the container. Raises FormatError when the file cannot be written or a value does not fit."""
    data = rknn_bytes(model)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise FormatError(path, expected="a file that can be written", found=str(error.strerror)) from None


def rknn_bytes(model: Rknn) -> bytes:
    """The bytes of the container. Raises FormatError when a value does not fit its slot."""
    try:
        payload = _payload(model)
        document = orjson.dumps(model.json)
    except (TypeError, OverflowError, BuilderSizeError) as error:
        text = str(error).replace("\n", " ")
        raise FormatError(model.file, field="payload", expected="values that fit", found=text) from None
    header = b"RKNN" + bytes(4) + (6).to_bytes(8, "little") + len(payload).to_bytes(8, "little")
    return b"".join(
        (header.ljust(_HEADER_BYTES, b"\0"), payload, len(document).to_bytes(8, "little"), document)
    )


class _Writer:
    """A FlatBuffer builder that makes tables from slots."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def table(
        self,
        offsets: Sequence[tuple[int, int]],
        integers: Sequence[tuple[int, int]] = (),
        bytes_: Sequence[tuple[int, int]] = (),
    ) -> int:
        """A table; pairs are (slot offset, value), offsets are positions of what was written before."""
        slots = [slot for slot, _ in (*offsets, *integers, *bytes_)]
        self.builder.StartObject((max(slots) - 4) // 2 + 1 if slots else 0)
        for slot, value in offsets:
            self.builder.PrependUOffsetTRelativeSlot((slot - 4) // 2, value, 0)
        for slot, value in integers:
            self.builder.PrependInt32Slot((slot - 4) // 2, value, 0)
        for slot, value in bytes_:
            self.builder.PrependUint8Slot((slot - 4) // 2, value, 0)
        return self.builder.EndObject()

    def tables(self, items: Sequence[_Item], write: Callable[[_Item], int]) -> int:
        """A vector of tables."""
        positions = [write(item) for item in items]
        self.builder.StartVector(4, len(positions), 4)
        for position in reversed(positions):
            self.builder.PrependUOffsetTRelative(position)
        return self.builder.EndVector()

    def integers(self, values: Sequence[int]) -> int:
        """A vector of signed 32-bit values."""
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependInt32(value)
        return self.builder.EndVector()

    def pairs(self, values: Sequence[tuple[int, int]]) -> int:
        """A vector of structures of two unsigned 32-bit values."""
        self.builder.StartVector(8, len(values), 4)
        for first, second in reversed(values):
            self.builder.PrependUint32(second)
            self.builder.PrependUint32(first)
        return self.builder.EndVector()

    def text(self, value: str) -> int:
        """A string."""
        return self.builder.CreateString(value)

    def data(self, value: bytes) -> int:
        """A vector of bytes."""
        return self.builder.CreateByteVector(value)


def _payload(model: Rknn) -> bytes:
    writer = _Writer()
    root = writer.table(
        [
            (6, writer.text(model.format)),
            (8, writer.tables(model.graphs, lambda graph: _graph(writer, graph))),
            (10, writer.text(model.generator)),
            (18, writer.text(model.compiler)),
            (20, writer.text(model.platform)),
            (22, writer.text(model.source)),
            (28, writer.text(model.input_json)),
            (30, writer.text(model.output_json)),
            (44, writer.tables(model.blobs, lambda blob: writer.table([(4, writer.data(blob))]))),
        ]
    )
    writer.builder.Finish(root, b"RKNN")
    return bytes(writer.builder.Output())


def _graph(writer: _Writer, graph: RknnGraph) -> int:
    by_tensor: dict[str, list[Relocation]] = {}
    for entry in graph.relocations:
        by_tensor.setdefault(entry.tensor, []).append(entry)
    offsets = [
        (4, writer.tables(graph.tensors, lambda tensor: _tensor(writer, tensor))),
        (6, writer.tables(graph.nodes, lambda node: _node(writer, node))),
        (8, writer.integers(graph.inputs)),
        (10, writer.integers(graph.outputs)),
        (18, writer.tables(list(by_tensor.values()), lambda entries: _relocations(writer, entries))),
    ]
    if graph.plan_starts:
        offsets.append((24, writer.integers((0,) * _PLAN_STARTS + graph.plan_starts)))
    return writer.table(offsets)


def _tensor(writer: _Writer, tensor: RknnTensor) -> int:
    return writer.table(
        [
            (10, writer.integers(tensor.packed_shape)),
            (12, writer.integers(tensor.shape)),
            (14, writer.text(tensor.name)),
        ],
        [(28, tensor.size), (30, tensor.place), (40, tensor.blob)],
        [(4, tensor.dtype_code), (8, tensor.kind_code)],
    )


def _node(writer: _Writer, node: RknnNode) -> int:
    return writer.table(
        [
            (6, writer.text(node.type)),
            (8, writer.text(node.name)),
            (12, writer.integers(node.inputs)),
            (14, writer.integers(node.outputs)),
            (22, writer.data(node.attributes)),
            (24, writer.integers(node.task_counts)),
        ]
    )


def _relocations(writer: _Writer, entries: list[Relocation]) -> int:
    return writer.table(
        [
            (4, writer.text(entries[0].tensor)),
            (6, writer.pairs([(entry.offset, entry.word) for entry in entries])),
            (8, writer.pairs([(1, entry.core) for entry in entries])),
        ]
    )
