"""The memory that a task touches, as ranges and byte by byte."""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.channel_operands import operand_ranges
from npuviz.targets.rk3588.task.cost import Cost
from npuviz.targets.rk3588.task.work import ATOM_BYTES, PRECISION_BYTES, Convolution, Output, Pooling, bits
from npuviz.targets.rk3588.task.write_dma import write_pitches, written_size

_OPERAND_NOTCH = 0x5010


def access_rows(task: Task, cost: Cost) -> list[tuple[int, int, int]]:
    """(is write, low, high) address ranges that a task touches."""
    rows = [(0, task.stream, task.stream + 8 * len(task.words))]
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    if conv is not None and cost.factor > 0:
        end = _end(_feature_pairs(conv)) if not conv.pixel_channels else cost.feature_bytes
        rows.append((0, conv.feature_address, conv.feature_address + end))
        rows.append((0, conv.weight_address, conv.weight_address + conv.weight_bytes))
    if output is not None:
        if output.is_flying:
            rows.append((0, output.main_address, output.main_address + cost.feature_bytes))
        if not output.ew.is_bypassed and not output.ew.is_constant:
            rows.append((0, output.operand_address, output.operand_address + _operand_end(task, output)))
        rows += [(0, low, high) for _, low, high in operand_ranges(task.registers, output)]
        if output.to_memory:
            rows.append((1, output.address, output.address + _end(_output_pairs(task, output))))
    if pool is not None:
        if cost.is_pooling:
            rows.append((0, pool.source_address, pool.source_address + _end(_source_pairs(pool))))
        rows.append((1, pool.address, pool.address + cost.written_bytes))
    return rows


def has_exact_end(task: Task, low: int) -> bool:
    """Whether the range that a task reads from an address on ends with a byte that it reads."""
    conv, pool = task.work.convolution, task.work.pooling
    is_cube = conv is not None and low == conv.feature_address and not conv.pixel_channels
    return is_cube or (pool is not None and low == pool.source_address)


def written_atoms(task: Task) -> np.ndarray:
    """Addresses of the atoms that a task writes, int64, each once."""
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
    """Addresses of the atoms that a task reads, int64, each once; of all but cubes whole ranges."""
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    for is_write, low, high in access_rows(task, cost):
        if is_write:
            continue
        if conv is not None and low == conv.feature_address and not conv.pixel_channels:
            found.append(_atoms(low, _feature_pairs(conv)))
        elif pool is not None and low == pool.source_address:
            found.append(_atoms(low, _source_pairs(pool)))
        elif _is_cube_operand(output, low):
            found.append(_atoms(low, _operand_pairs(task, output)))
        else:
            found.append(np.arange(low // ATOM_BYTES, -(-high // ATOM_BYTES)) * ATOM_BYTES)
    return each_once(found)


def each_once(parts: Sequence[np.ndarray]) -> np.ndarray:
    """All numbers of some arrays (int64), rising, each once. Cubes rise already or consist of few runs, which
    sorting takes less time for than hashing."""
    found = np.concatenate(parts)
    if (found[1:] > found[:-1]).all():
        return found
    found.sort(kind="stable")
    return found[np.concatenate(([True], found[1:] != found[:-1]))]


Pairs = tuple[tuple[int, int], ...]
"""Counts and steps in atoms: surfaces, rows, columns."""


def _feature_pairs(conv: Convolution) -> Pairs:
    """LINE_STRIDE counts 4 bytes in cubes, see `feature_atoms` of the values."""
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


def _is_cube_operand(output: Output | None, low: int) -> TypeGuard[Output]:
    return (
        output is not None
        and not output.ew.is_bypassed
        and not output.ew.is_constant
        and output.operand_is_cube
        and low == output.operand_address
    )


def _operand_end(task: Task, output: Output) -> int:
    """Bytes from the first to the end of the last that EW's reader fetches."""
    if output.operand_is_cube:
        return _end(_operand_pairs(task, output))
    return output.channels * max(1, output.ew.operand_bits // 8)


def _operand_pairs(task: Task, output: Output) -> Pairs:
    """EW's second operand as a cube: the notch counts from the end of a row to the next. Ref: TRM."""
    height, width = written_size(task.registers, output)
    row = width + bits(task.registers.get(_OPERAND_NOTCH, 0), 28, 16)
    surfaces = -(-output.channels * max(1, output.ew.operand_bits // 8) // ATOM_BYTES)
    return (surfaces, output.operand_surface_stride or row * height), (height, row), (width, 1)


def _output_pairs(task: Task, output: Output) -> Pairs:
    height, width = written_size(task.registers, output)
    surface, row, column = write_pitches(task.registers, output)
    surfaces = _surfaces(output.channels, output.precision_out)
    return (surfaces, surface), (height, row), (width, column)


def _surfaces(channels: int, precision: int) -> int:
    return max(1, -(-channels * PRECISION_BYTES[precision] // ATOM_BYTES))


def _end(pairs: Pairs) -> int:
    """Bytes from the first atom to the end of the last."""
    return (sum(max(0, count - 1) * max(0, step) for count, step in pairs) + 1) * ATOM_BYTES


def _atoms(address: int, pairs: Pairs) -> np.ndarray:
    """Addresses of the atoms address + sum of i * step, 0 <= i < count."""
    found = np.array([address], np.int64)
    for count, step in pairs:
        found = (found[:, None] + np.arange(count) * step * ATOM_BYTES).reshape(-1)
    return found
