"""Find the memory that a stream's registers point to: ranges by task, joined to buffers without contents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned
from npuviz.targets.rk3588.tables import Buffer, Task
from npuviz.targets.rk3588.task.channel_operands import operand_ranges
from npuviz.targets.rk3588.task.cost import Cost
from npuviz.targets.rk3588.task.work import ATOM_BYTES, PRECISION_BYTES, Convolution, Output, Pooling

ADDRESS_END = 1 << 32
MOST_BYTES = 512 << 20
"""Most bytes of all buffers of a dump. Assumed: no dump touches more; sizes in registers reach 4 GiB."""

_OPERANDS_ALIGNED = 64
_DTYPES = ("int8", "int16", "float16", "bfloat16", "int32", "float32", "int8", "float32")
"""Numpy types by precision code: int4 as bytes, tf32 as float32."""


@dataclass(frozen=True, slots=True)
class MemoryArea:
    """Bytes [low, high) that a task reads or writes; shape (1, C, H, W) where they are a dense cube."""

    name: str
    low: int
    high: int
    layout: str = "raw"
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"


def areas_of(task: Task, cost: Cost) -> list[MemoryArea]:
    """Return what one task touches, without its stream."""
    found: list[MemoryArea] = []
    work = task.work
    is_convolution = work.convolution is not None and cost.factor > 0
    if work.convolution is not None and is_convolution:
        found += _convolution(work.convolution)
    if work.output is not None:
        found += _output(task.registers, work.output, cost)
    if work.pooling is not None:
        found += _pooling(work.pooling, cost)
    suffix = f" of task {task.index}"
    return [
        MemoryArea(a.name + suffix, a.low, a.high, a.layout, a.shape, a.dtype)
        for a in found
        if a.high > a.low
    ]


def _cube(
    name: str, address: int, size: tuple[int, int, int], precision: int, strides: tuple[int, int] = (0, 0)
) -> MemoryArea:
    """Return the area of a feature cube (C, H, W).

    strides  atoms from one surface to the next (0: dense), least bytes of the area
    """
    channels, height, width = size
    group = ATOM_BYTES // PRECISION_BYTES[precision]
    surfaces = -(-channels // group)
    pixels = height * width
    stride = strides[0] or pixels
    end = max(strides[1], (max(stride, 0) * (surfaces - 1) + pixels) * ATOM_BYTES)
    if stride != pixels and surfaces > 1:
        return MemoryArea(name, address, address + end)
    return MemoryArea(name, address, address + end, "feature", (1, *size), _DTYPES[precision])


def _convolution(conv: Convolution) -> list[MemoryArea]:
    size = (conv.channels, conv.height, conv.width)
    span = conv.line_stride + conv.surface_stride
    end = conv.weight_address + conv.weight_bytes
    weights = MemoryArea("weights", conv.weight_address, end, "weight")
    return [_cube("features", conv.feature_address, size, conv.precision, (span, 0)), weights]


def _output(registers: Mapping[int, int], output: Output, cost: Cost) -> list[MemoryArea]:
    size = (output.channels, output.height, output.width)
    found: list[MemoryArea] = []
    if output.is_flying:
        found.append(_cube("input", output.main_address, size, output.precision_in, (0, cost.feature_bytes)))
    for name, low, high in operand_ranges(registers, output):
        found.append(MemoryArea(f"{name} operands", low, low + aligned(high - low, _OPERANDS_ALIGNED)))
    if not output.ew.is_bypassed and not output.ew.is_constant:
        item = {8: 0, 16: 1, 32: 4}.get(output.ew.operand_bits, 0)
        stride = output.operand_surface_stride
        found.append(_cube("second operand", output.operand_address, size, item, (stride, 0)))
    if output.to_memory:
        found.append(_cube("output", output.address, size, output.precision_out, (output.surface_stride, 0)))
    return found


def _pooling(pool: Pooling, cost: Cost) -> list[MemoryArea]:
    precision = pool.precision if pool.precision < len(PRECISION_BYTES) else 0
    out = (pool.out_channels, pool.out_height, pool.out_width)
    found = [_cube("pooled", pool.address, out, precision, (pool.surface_stride, 0))]
    if cost.is_pooling:
        size = (pool.in_channels, pool.in_height, pool.in_width)
        strides = (pool.source_surface_stride, cost.feature_bytes)
        found.append(_cube("pooling input", pool.source_address, size, precision, strides))
    return found


def buffers_of(areas: Iterable[MemoryArea]) -> tuple[list[Buffer], list[str]]:
    """Return buffers for all areas, overlapping ones joined, and sentences about areas without a buffer.

    Addresses beyond 32 bits are left out (the chip's addresses wrap; Assumed: no stream relies on that), and
    everything beyond MOST_BYTES in all.
    """
    found: list[Buffer] = []
    problems: list[str] = []
    total = 0
    for group in _joined(areas):
        low = group[0].low
        high = max(area.high for area in group)
        if high > ADDRESS_END:
            beyond = next(area for area in group if area.high > ADDRESS_END)
            problems.append(
                f"{beyond.name} at {beyond.low:#x}, {beyond.high - beyond.low} bytes, leaves the 32-bit "
                "address space: the values of tasks that use it are not computed"
            )
            high = ADDRESS_END
        total += high - low
        if total > MOST_BYTES:
            problems.append(f"{group[0].name} and what lies behind it is not held: over {MOST_BYTES} bytes")
            break
        found.append(_buffer(group, low, high))
    return found, problems


def _joined(areas: Iterable[MemoryArea]) -> list[Sequence[MemoryArea]]:
    groups: list[list[MemoryArea]] = []
    end = -1
    for area in sorted(areas, key=lambda item: (item.low, -item.high)):
        if area.low >= ADDRESS_END:
            continue
        if groups and area.low < end:
            groups[-1].append(area)
        else:
            groups.append([area])
        end = max(end, area.high)
    return list(groups)


def _buffer(group: Sequence[MemoryArea], low: int, high: int) -> Buffer:
    first = group[0]
    if all((a.low, a.high, a.shape, a.dtype) == (low, high, first.shape, first.dtype) for a in group):
        return Buffer(
            first.name, low, high - low, first.layout, shape=first.shape, dtype=first.dtype, data=None
        )
    names = list(dict.fromkeys(area.name for area in group))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return Buffer(", ".join(names[:2]) + more, low, high - low)


def free_place(buffers: Iterable[Buffer], size: int, first: int) -> int:
    """Return the lowest multiple of 4096 from `first` on where `size` bytes touch no buffer."""
    place = first
    for buffer in sorted(buffers, key=lambda item: item.address):
        if buffer.address < place + size and place < buffer.address + buffer.size_bytes:
            place = aligned(buffer.address + buffer.size_bytes, 4096)
    return place


def stream_buffer(name: str, address: int, words: np.ndarray) -> Buffer:
    """Return a buffer with register commands."""
    data = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    data.flags.writeable = False
    return Buffer(name, address, len(data), "stream", data=data)
