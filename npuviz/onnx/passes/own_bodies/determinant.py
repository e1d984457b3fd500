"""Writes Det as an elimination of fixed steps: pivots are chosen by masks, not by moving on."""

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

MAX_ROWS = 32
"""Most rows of a matrix: each adds some twenty operators."""
OLDEST_OPSET = 11
"""The first operator set in which numbers of all types can be compared for equality, by sizes as inputs."""


def write_det(writer: Writer, node: NodeProto) -> None:
    """Rewrite Det: the product of the pivots of an elimination, whose sign each exchange of rows turns."""
    del node
    source = writer.given(0)
    shape = writer.shape(source)
    if len(shape) < 2 or shape[-1] != shape[-2] or not 1 <= shape[-1] <= MAX_ROWS:
        raise CannotWrite
    if writer.opset < OLDEST_OPSET:
        raise CannotWrite
    rows = shape[-1]
    count = int(np.prod(shape[:-2]))
    if not count:
        raise CannotWrite
    kind = writer.dtype(source)
    matrix = writer.reshape(source, (count, rows, rows))
    result = ""
    for size in range(rows, 1, -1):
        pivot, matrix = _step(writer, matrix, size, kind)
        result = writer.add("Mul", [result, pivot]) if result else pivot
    last = writer.add("Mul", [result, matrix]) if result else matrix
    writer.reshape(last, shape[:-2], writer.wanted(0))


def _step(writer: Writer, matrix: str, size: int, kind: np.dtype) -> tuple[str, str]:
    """Eliminate the first column of matrices (count, size, size).

    Returns the pivot with its sign, (count, 1, 1), and what is left, (count, size - 1, size - 1).
    """
    column = _slice(writer, matrix, (0, size), (0, 1))
    sizes = writer.add("Abs", [column])
    chosen = writer.add("ArgMax", [sizes], axis=1, keepdims=1)
    numbers = writer.constant(f"rows_{size}", np.arange(size, dtype=np.int64).reshape(1, size, 1))
    mask = writer.add("Equal", [numbers, chosen])
    zero, one, less = (writer.constant(name, np.array(value, kind)) for name, value in _NUMBERS)
    row = writer.add("Where", [mask, matrix, zero])
    row = _sum_of_rows(writer, row, size, kind)
    first = _slice(writer, matrix, (0, 1), (0, size))
    rest = _slice(writer, writer.add("Where", [mask, first, matrix]), (1, size), (0, size))
    pivot = _slice(writer, row, (0, 1), (0, 1))
    # Where the pivot is 0, so is the whole column, and nothing is to be eliminated.
    divisor = writer.add("Where", [writer.add("Equal", [pivot, zero]), one, pivot])
    factors = writer.add("Div", [_slice(writer, rest, (0, size - 1), (0, 1)), divisor])
    taken = writer.add("Mul", [factors, _slice(writer, row, (0, 1), (1, size))])
    left = writer.add("Sub", [_slice(writer, rest, (0, size - 1), (1, size)), taken])
    is_first = writer.add("Equal", [chosen, writer.constant("first", np.array(0, np.int64))])
    sign = writer.add("Where", [is_first, one, less])
    return writer.add("Mul", [pivot, sign]), left


_NUMBERS = (("zero", 0), ("one", 1), ("less", -1))


def _sum_of_rows(writer: Writer, rows: str, size: int, kind: np.dtype) -> str:
    """Return the sum of the rows, of which all but one are 0."""
    ones = writer.constant(f"ones_{size}", np.ones((1, 1, size), kind))
    return writer.add("MatMul", [ones, rows])


def _slice(writer: Writer, matrix: str, rows: tuple[int, int], columns: tuple[int, int]) -> str:
    limits = np.array([rows, columns], np.int64)
    names = [
        writer.constant(f"{name}_{'_'.join(map(str, values))}", values)
        for name, values in (("from", limits[:, 0]), ("to", limits[:, 1]), ("axes", np.array([1, 2])))
    ]
    return writer.add("Slice", [matrix, *names])
