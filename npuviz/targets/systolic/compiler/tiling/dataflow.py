"""The order in which the array works on the blocks of a tile, by the operand that stays in the array.

weights  a block of weights (reduction x columns) stays, rows of activations stream
outputs  a block of results (rows x columns) stays, both operands stream along the reduction
inputs   a block of activations (rows x reduction) stays, columns of weights stream
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npuviz.targets.systolic.compiler.tiling.resources import INPUTS, OUTPUTS, Resources


@dataclass(frozen=True, slots=True)
class ArrayStep:
    """One GEMM-type instruction.

    row, column, part  indices of the block of rows, of columns, and of the part of the reduction
    streamed  what streams through the array; tile  (columns, reduction, rows)
    preload   whether what stays in the array is exchanged first
    """

    row: int
    column: int
    part: int
    streamed: int
    tile: tuple[int, int, int]
    preload: bool


def cut(size: int, step: int) -> list[tuple[int, int]]:
    """Return (start, length) of the pieces of a dimension."""
    return [(start, min(step, size - start)) for start in range(0, size, step)]


def array_steps(
    resources: Resources, rows: Sequence[int], columns: Sequence[int], parts: Sequence[int]
) -> Iterator[ArrayStep]:
    """Yield the instructions of a product of blocks; arguments are the sizes of the blocks along each
    dimension."""
    if resources.dataflow == OUTPUTS:
        for i, n in enumerate(rows):
            for j, m in enumerate(columns):
                for part, k in enumerate(parts):
                    yield ArrayStep(i, j, part, k, (m, k, n), part == 0)
    elif resources.dataflow == INPUTS:
        for i, n in enumerate(rows):
            for part, k in enumerate(parts):
                for j, m in enumerate(columns):
                    yield ArrayStep(i, j, part, m, (m, k, n), j == 0)
    else:
        for j, m in enumerate(columns):
            for part, k in enumerate(parts):
                for i, n in enumerate(rows):
                    yield ArrayStep(i, j, part, n, (m, k, n), i == 0)


def array_cycles(resources: Resources, rows: int, columns: int, depth: int) -> int:
    """Estimate the cycles that the array needs for a product: blocks times the cycles in which each
    streams."""
    high, wide = resources.array_rows, resources.array_columns
    if resources.dataflow == OUTPUTS:
        return _count(rows, high) * _count(columns, wide) * max(depth, high)
    if resources.dataflow == INPUTS:
        return _count(rows, wide) * _count(depth, high) * max(columns, high)
    return _count(columns, wide) * _count(depth, high) * max(rows, high)


def _count(size: int, step: int) -> int:
    return -(-size // step)
