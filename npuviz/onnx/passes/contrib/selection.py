"""Rewrites adding to rows by indices known at run time as a product with a matrix of ones and zeros.

An index counts from the front or, if negative, from the back: each row of updates has two columns in the
matrix, which pays off for few rows only. Zero times infinity is NaN, which a check finds. An index out of
range adds nothing, which is a hazard.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer
from npuviz.sim.checks.row_numbers import ROW_NUMBERS

_EXPANDED = 8
"""Most Expand and Identity operators through which an index per element is traced to an index per row."""


def write_scatter_elements(writer: Writer, node: NodeProto) -> None:
    """Rewrite ScatterElements that adds whole rows to rows of a tensor of floats, as graph networks do."""
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
        chosen = _chosen(writer, _row_numbers(writer, numbers), count, rows)
        total = writer.add("MatMul", [chosen, _twice(writer, updates, (count, width))])
    writer.add("Add", [data, writer.reshape(total, shape)], writer.wanted(0))


def _require(writer: Writer, values: str, numbers: str) -> None:
    """Raise CannotWrite unless values are non-empty floats (finite if constant) and indices are computed."""
    if writer.is_known(numbers) or writer.dtype(values).kind != "f":
        raise CannotWrite
    if writer.is_known(values) and not np.isfinite(writer.known(values)).all():
        raise CannotWrite
    if not prod(writer.shape(values)) or not prod(writer.shape(numbers)):
        raise CannotWrite


def _ones(writer: Writer, rows: int, columns: int) -> str:
    return writer.constant("ones", np.ones((rows, columns), np.float32))


def _twice(writer: Writer, values: str, shape: Sequence[int]) -> str:
    """Return the rows as fp32, twice one behind the other: for indices from the front and from the back."""
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


def _chosen(writer: Writer, numbers: str, count: int, rows: int) -> str:
    """Compute the matrix that is 1 where an index selects a row: (rows, 2 * indices). Raises CannotWrite if
    it is larger than `selection_elements`."""
    if 2 * count * rows > writer.form.selection_elements:
        raise CannotWrite
    key = ("chosen", numbers, rows)
    if writer.shared(key):
        return writer.shared(key)
    words = numbers if writer.dtype(numbers) == np.int32 else writer.cast(numbers, np.int32)
    front = np.arange(rows, dtype=np.int32)
    named = writer.constant(ROW_NUMBERS, np.stack([front, front - rows], 1).reshape(rows, 2, 1))
    equal = writer.add("Equal", [named, writer.reshape(words, (1, 1, count))])
    return writer.share(key, writer.reshape(writer.cast(equal, np.float32), (rows, 2 * count)))


def _row_numbers(writer: Writer, numbers: str) -> str:
    """Find the tensor with one index per row from which a tensor with one index per element was expanded.

    Raises CannotWrite if there is none.
    """
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
    "ScatterElements": write_scatter_elements,
}
