"""Rows that a run picks by their numbers, as products with a matrix of ones and zeros.

A number counts from the front, or, below zero, from the back: each row has two columns in the matrix. It is
worth its room for few rows only. Zero times infinity is no number: constants that hold one stay out of it.
What a run makes is, and a check tells. The number of a row that there is not picks zeros: that is a hazard.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer
from npuviz.sim.checks.row_numbers import ROW_NUMBERS

_EXPANDED = 8
"""Operators behind one another through which a number is followed to where it was one for a whole row."""


def write_gather(writer: Writer, node: NodeProto) -> None:
    """Gather by numbers that a run makes, along one axis of a tensor of floats."""
    del node
    table, numbers = writer.given(0), writer.given(1)
    shape, picked = writer.shape(table), writer.shape(numbers)
    axis = int(writer.attribute("axis", 0)) % max(1, len(shape))
    _require(writer, table, numbers)
    before, after = shape[:axis], shape[axis + 1 :]
    rows, count = shape[axis], prod(picked)
    if rows == 1:
        _write_repeated(writer, table, (*before, count, *after), (*before, *picked, *after))
        return
    if prod(before) != 1:
        raise CannotWrite
    chosen = _chosen(writer, numbers, count, rows)
    wide = _twice(writer, table, (rows, prod(after)))
    product = writer.add("MatMul", [chosen, wide])
    writer.reshape(product, (*before, *picked, *after), writer.wanted(0))


def write_gather_nd(writer: Writer, node: NodeProto) -> None:
    """GatherND whose numbers name whole rows of the first axis."""
    del node
    table, numbers = writer.given(0), writer.given(1)
    shape, picked = writer.shape(table), writer.shape(numbers)
    if int(writer.attribute("batch_dims", 0)) or not picked or picked[-1] != 1:
        raise CannotWrite
    _require(writer, table, numbers)
    rows, count, after = shape[0], prod(picked), shape[1:]
    if rows == 1:
        _write_repeated(writer, table, (count, *after), (*picked[:-1], *after))
        return
    chosen = _chosen(writer, numbers, count, rows)
    product = writer.add("MatMul", [chosen, _twice(writer, table, (rows, prod(after)))])
    writer.reshape(product, (*picked[:-1], *after), writer.wanted(0))


def write_scatter_elements(writer: Writer, node: NodeProto) -> None:
    """ScatterElements that adds whole rows to rows of a tensor of floats, as networks on graphs do."""
    if writer.attribute("reduction", b"none") != b"add":
        raise CannotWrite
    data, numbers, updates = (writer.given(place) for place in range(3))
    shape, from_shape = writer.shape(data), writer.shape(updates)
    axis = int(writer.attribute("axis", 0)) % max(1, len(shape))
    if axis or len(shape) != len(from_shape) or shape[1:] != from_shape[1:]:
        raise CannotWrite
    rows, count, width = shape[0], from_shape[0], prod(shape[1:])
    _require(writer, data, numbers)
    if rows == 1:
        total = writer.add("MatMul", [_ones(writer, 1, count), writer.reshape(updates, (count, width))])
    else:
        chosen = _chosen(writer, _row_numbers(writer, numbers), count, rows, is_turned=True)
        total = writer.add("MatMul", [chosen, _twice(writer, updates, (count, width))])
    writer.add("Add", [data, writer.reshape(total, shape)], writer.wanted(0))


def _require(writer: Writer, values: str, numbers: str) -> None:
    """Values are floats, there are some, and the numbers come from the run."""
    if writer.is_known(numbers) or writer.dtype(values).kind != "f":
        raise CannotWrite
    if writer.is_known(values) and not np.isfinite(writer.known(values)).all():
        raise CannotWrite
    if not prod(writer.shape(values)) or not prod(writer.shape(numbers)):
        raise CannotWrite


def _write_repeated(writer: Writer, table: str, wide: Sequence[int], shape: Sequence[int]) -> None:
    """The only row, as often as it is named."""
    if prod(wide) == prod(writer.shape(table)):
        writer.reshape(table, shape, writer.wanted(0))
        return
    size = writer.constant("size", np.array(wide, np.int64))
    writer.reshape(writer.add("Expand", [table, size]), shape, writer.wanted(0))


def _ones(writer: Writer, rows: int, columns: int) -> str:
    return writer.constant("ones", np.ones((rows, columns), np.float32))


def _twice(writer: Writer, values: str, shape: Sequence[int]) -> str:
    """Rows as fp32, and once more behind themselves."""
    if writer.is_known(values):
        known = writer.known(values).reshape(shape).astype(np.float32)
        return writer.constant("rows", np.concatenate([known, known]))
    key = ("rows twice", values)
    if not writer.shared(key):
        flat = writer.reshape(values, shape)
        if writer.dtype(values) != np.float32:
            flat = writer.cast(flat, np.float32)
        writer.share(key, writer.add("Concat", [flat, flat], axis=0))
    return writer.shared(key)


def _chosen(writer: Writer, numbers: str, count: int, rows: int, *, is_turned: bool = False) -> str:
    """One where a number names a row, zero elsewhere: a row of it for each number, or turned a row for each
    row and two columns for each number."""
    if 2 * count * rows > writer.selection_elements:
        raise CannotWrite
    key = ("chosen", numbers, rows, is_turned)
    if writer.shared(key):
        return writer.shared(key)
    words = writer.shared(("words", numbers))
    if not words:
        words = numbers if writer.dtype(numbers) == np.int32 else writer.cast(numbers, np.int32)
        writer.share(("words", numbers), words)
    front = np.arange(rows, dtype=np.int32)
    if is_turned:
        named = writer.constant(ROW_NUMBERS, np.stack([front, front - rows], 1).reshape(rows, 2, 1))
        equal = writer.add("Equal", [named, writer.reshape(words, (1, 1, count))])
        flat = writer.reshape(writer.cast(equal, np.float32), (rows, 2 * count))
        return writer.share(key, flat)
    named = writer.constant(ROW_NUMBERS, np.concatenate([front, front - rows]).reshape(1, 2 * rows))
    equal = writer.add("Equal", [writer.reshape(words, (count, 1)), named])
    return writer.share(key, writer.cast(equal, np.float32))


def _row_numbers(writer: Writer, numbers: str) -> str:
    """The tensor with a number for each row of which numbers for each element are repeats. Raises CannotWrite
    where they are none."""
    shape = writer.shape(numbers)
    if prod(shape[1:]) == 1:
        return numbers
    for _ in range(_EXPANDED):
        made = writer.maker(numbers)
        if made is None or made.op_type not in ("Expand", "Identity"):
            break
        numbers = made.input[0]
        found = writer.shape(numbers)
        if len(found) == len(shape) and found[0] == shape[0] and prod(found[1:]) == 1:
            return numbers
    raise CannotWrite


WRITERS: dict[str, Callable[[Writer, NodeProto], None]] = {
    "Gather": write_gather,
    "GatherND": write_gather_nd,
    "ScatterElements": write_scatter_elements,
}
