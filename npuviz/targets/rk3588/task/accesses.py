"""Find the memory that a task touches, as ranges and atom by atom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.channel_operands import operand_ranges
from npuviz.targets.rk3588.task.cost import Cost
from npuviz.targets.rk3588.task.main_reader import main_cube
from npuviz.targets.rk3588.task.work import ATOM_BYTES, PRECISION_BYTES, Convolution, Output, Pooling, bits
from npuviz.targets.rk3588.task.write_dma import write_pitches, written_size

_OPERAND_NOTCH = 0x5010


@dataclass(frozen=True, slots=True)
class _Read:
    """Bytes [low, high) that a task reads.

    pairs     the atoms of them that it reads, None: all
    is_exact  whether the task reads the last byte
    """

    low: int
    high: int
    pairs: "Pairs | None" = None
    is_exact: bool = False


def access_rows(task: Task, cost: Cost) -> list[tuple[int, int, int]]:
    """Return (is write, low, high) address ranges that a task touches."""
    rows = [(0, each.low, each.high) for each in _reads(task, cost)]
    output, pool = task.work.output, task.work.pooling
    if output is not None and output.to_memory:
        rows.append((1, output.address, output.address + _end(_output_pairs(task, output))))
    if pool is not None:
        rows.append((1, pool.address, pool.address + cost.written_bytes))
    return rows


def exact_ranges(task: Task, cost: Cost) -> set[tuple[int, int]]:
    """Return (low, high) of the ranges that a task reads to the last byte: cubes."""
    return {(each.low, each.high) for each in _reads(task, cost) if each.is_exact}


def _reads(task: Task, cost: Cost) -> Iterator[_Read]:
    yield _Read(task.stream, task.stream + 8 * len(task.words))
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    if conv is not None and cost.factor > 0:
        low = conv.feature_address
        if conv.pixel_channels:
            yield _Read(low, low + cost.feature_bytes)
        else:
            pairs = _feature_pairs(conv)
            yield _Read(low, low + _end(pairs), pairs, is_exact=True)
        yield _Read(conv.weight_address, conv.weight_address + conv.weight_bytes)
    if output is not None:
        yield from _reads_of_output(task, output)
    if pool is not None and cost.is_pooling:
        pairs = _source_pairs(pool)
        yield _Read(pool.source_address, pool.source_address + _end(pairs), pairs, is_exact=True)


def _reads_of_output(task: Task, output: Output) -> Iterator[_Read]:
    if output.is_flying:
        pairs = _main_pairs(task, output)
        yield _Read(output.main_address, output.main_address + _end(pairs), pairs)
    if not output.ew.is_bypassed and not output.ew.is_constant:
        low, size = output.operand_address, max(1, output.ew.operand_bits // 8)
        if output.operand_is_cube:
            # Lanes that fill up its last surfaces may never be written: their results are used nowhere.
            pairs = _operand_pairs(task, output, size)
            yield _Read(low, low + _end(pairs), pairs)
        else:
            yield _Read(low, low + output.channels * size)
    for _, low, high in operand_ranges(task.registers, output):
        yield _Read(low, high)


def written_atoms(task: Task) -> np.ndarray:
    """Return the addresses of the atoms that a task writes, int64, each once."""
    output, pool = task.work.output, task.work.pooling
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    if output is not None and output.to_memory:
        found.append(_atoms(output.address, _output_pairs(task, output)))
    if pool is not None:
        surfaces = _surfaces(pool.out_channels, pool.precision)
        pairs = ((surfaces, pool.surface_stride), (pool.out_height, pool.out_width), (pool.out_width, 1))
        found.append(_atoms(pool.address, pairs))
    return each_once(found)


def read_atoms(task: Task, cost: Cost) -> np.ndarray:
    """Return the addresses of the atoms that a task reads, int64, each once; whole ranges for all but
    cubes."""
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    for each in _reads(task, cost):
        if each.pairs is not None:
            found.append(_atoms(each.low, each.pairs))
        else:
            found.append(np.arange(each.low // ATOM_BYTES, -(-each.high // ATOM_BYTES)) * ATOM_BYTES)
    return each_once(found)


def each_once(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return all numbers of some arrays (int64), rising, each once.

    Cubes rise already or consist of few runs, which are sorted in less time than they are hashed.
    """
    found = np.concatenate(parts)
    if (found[1:] > found[:-1]).all():
        return found
    found.sort(kind="stable")
    return found[np.concatenate(([True], found[1:] != found[:-1]))]


Pairs = tuple[tuple[int, int], ...]
"""(count, step in atoms) of surfaces, rows and columns."""


def _feature_pairs(conv: Convolution) -> Pairs:
    """Return the atoms of the features; LINE_STRIDE counts 4 bytes in cubes, see `feature_atoms` of the
    values."""
    surface = conv.line_stride + conv.surface_stride
    return (
        (_surfaces(conv.channels, conv.precision), surface),
        (conv.height, conv.line_stride // 4),
        (conv.width, 1),
    )


def _source_pairs(pool: Pooling) -> Pairs:
    surfaces = _surfaces(pool.in_channels, pool.precision)
    return (
        (surfaces, pool.source_surface_stride), (pool.in_height, pool.source_line_stride), (pool.in_width, 1)
    )  # fmt: skip


def _main_pairs(task: Task, output: Output) -> Pairs:
    cube = main_cube(task.registers, output)
    return (_surfaces(cube.channels, cube.precision), cube.surface), (cube.height, cube.row), (cube.width, 1)


def _operand_pairs(task: Task, output: Output, item: int) -> Pairs:
    """Return the atoms of EW's second operand as a cube. The notch counts from the end of a row to the next.
    Ref: TRM."""
    height, width = written_size(task.registers, output)
    row = width + bits(task.registers.get(_OPERAND_NOTCH, 0), 28, 16)
    surfaces = -(-output.channels * item // ATOM_BYTES)
    return (surfaces, output.operand_surface_stride or row * height), (height, row), (width, 1)


def _output_pairs(task: Task, output: Output) -> Pairs:
    height, width = written_size(task.registers, output)
    surface, row, column = write_pitches(task.registers, output)
    surfaces = _surfaces(output.channels, output.precision_out)
    return (surfaces, surface), (height, row), (width, column)


def _surfaces(channels: int, precision: int) -> int:
    return max(1, -(-channels * PRECISION_BYTES[precision] // ATOM_BYTES))


def _end(pairs: Pairs) -> int:
    """Return the bytes from the first atom to the end of the last."""
    return (sum(max(0, count - 1) * max(0, step) for count, step in pairs) + 1) * ATOM_BYTES


def _atoms(address: int, pairs: Pairs) -> np.ndarray:
    """Return the addresses of the atoms address + sum of i * step, 0 <= i < count."""
    found = np.array([address], np.int64)
    for count, step in pairs:
        found = (found[:, None] + np.arange(count) * step * ATOM_BYTES).reshape(-1)
    return found
