"""Cut a convolution into tasks: rows or kernels to the cores, rows to what CBUF holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.work import ATOM_BYTES

ROW_SPLIT, KERNEL_SPLIT = {1: 0, 2: 1, 3: 2}, {1: 0, 2: 4, 3: 5}
"""CONV_CON2 31:28 by number of cores. Ref: DER (vendor streams)."""
MAX_ROWS = 2047
"""Most rows of the features of a task: 11 bits of DATA_SIZE0. Ref: XML."""
MAX_KERNELS = 8192
"""Most kernels of a task: 13 bits of the DPU's channels. Ref: XML, HAPPY."""


@dataclass(frozen=True)
class Tile:
    """One task: the core that runs it, and the first of its kernels."""

    core: int
    task: ConvTask
    kernel: int = 0


@dataclass(frozen=True)
class Shape:
    """A convolution or pool over cubes; is_depthwise: one kernel per channel."""

    rows: WindowAxis
    columns: WindowAxis
    is_depthwise: bool = False

    @property
    def kernel(self) -> tuple[int, int]:
        """Height and width of a window."""
        return self.rows.kernel, self.columns.kernel

    @property
    def strides(self) -> tuple[int, int]:
        """Rows and columns between windows."""
        return self.rows.stride, self.columns.stride

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Padding at top, left, bottom, right."""
        return self.rows.before, self.columns.before, self.rows.after, self.columns.after


def tiles(spec: RknnSpec, base: ConvTask, shape: Shape, rows: tuple[int, int] | None = None) -> list[Tile]:
    """Return the faster of two plans: cores share the rows, or the kernels. Raises CannotLower if CBUF is too
    small.

    With rows every core reads all weights, with kernels all features.

    rows  first of the output's rows, and the one after the last; None: all
    """
    group, span = packing(base.in_dtype).kernels, rows or (0, shape.rows.out)
    plans: list[list[Tile]] = []
    if base.kernels <= MAX_KERNELS:
        plans.append(_by_rows(spec, base, shape, span))
    if not base.depthwise and (not plans or (spec.cores > 1 and base.kernels > group)):
        plans.append(_by_kernels(spec, base, shape, span))
    return min(plans, key=lambda plan: cost(spec, plan))


def cost(spec: RknnSpec, plan: Sequence[Tile]) -> tuple[float, int]:
    """Return the least cycles of the busiest core or the shared memory; then the bytes read."""
    by_core: dict[int, float] = {}
    moved = 0
    for tile in plan:
        cycles = spec.to_cycles(spec.task_ns) + _core_cycles(spec, tile.task)
        by_core[tile.core] = by_core.get(tile.core, 0.0) + cycles
        moved += tile.task.feature_bytes + (0 if tile.task.weight_reuse else tile.task.weight_bytes)
    return max(*by_core.values(), moved / spec.bytes_per_cycle), moved


def _core_cycles(spec: RknnSpec, task: ConvTask) -> float:
    """Return the cycles that MAC array or DPU need for a task."""
    atoms, taps = task.out_height * task.out_width, task.kernel_height * task.kernel_width
    if task.depthwise:
        size = spec.channels_depthwise
        groups = -(-task.channels // size)
        return max(atoms * taps * groups, atoms * groups * size / spec.output_rate)
    size = spec.kernels_int8 if task.in_dtype == "int8" else spec.kernels_fp16
    groups, blocks = -(-task.kernels // size), -(-task.channels // spec.channels_per_atomic)
    return max(atoms * taps * blocks * groups, atoms * groups * size / spec.output_rate)


def _by_rows(spec: RknnSpec, base: ConvTask, shape: Shape, rows: tuple[int, int]) -> list[Tile]:
    count = rows[1] - rows[0]
    cores = min(spec.cores, count)
    found: list[Tile] = []
    for core in range(cores):
        low, high = (rows[0] + count * n // cores for n in (core, core + 1))
        for task in _row_tiles(spec, base, shape, low, high):
            found.append(Tile(core, replace(task, co_work=ROW_SPLIT[cores])))
    return found


def _by_kernels(spec: RknnSpec, base: ConvTask, shape: Shape, rows: tuple[int, int]) -> list[Tile]:
    group, item = packing(base.in_dtype).kernels, numpy_dtype(base.out_dtype).itemsize
    groups = -(-base.kernels // group)
    cores = min(spec.cores, groups)
    found: list[Tile] = []
    for core in range(cores):
        first, end = (min(base.kernels, groups * n // cores * group) for n in (core, core + 1))
        for low in range(first, end, MAX_KERNELS):
            part = replace(
                base,
                kernels=min(end - low, MAX_KERNELS),
                weight_address=base.weight_address + low * base.kernel_bytes,
                output_address=base.output_address + low * shape.rows.out * shape.columns.out * item,
            )
            for task in _row_tiles(spec, part, shape, *rows):
                found.append(Tile(core, replace(task, co_work=KERNEL_SPLIT[cores]), low))
    return found


def _row_tiles(spec: RknnSpec, base: ConvTask, shape: Shape, low: int, high: int) -> list[ConvTask]:
    """Return the tasks for output rows low..high-1, by the faster of two ways to share CBUF.

    Room for one group of kernels gives the largest tiles; room for all weights reads them only once.
    """
    size, banks = spec.cbuf_bank_bytes, spec.cbuf_banks
    weights = base.weight_bytes
    group = base.kernel_bytes * packing(base.in_dtype).kernels
    if base.depthwise:
        # The weights of the last group of channels are filled up.
        weights = group = base.kernel_bytes // base.channels * base.out_channels
    row_bytes = base.width * base.channels * numpy_dtype(base.in_dtype).itemsize
    least = -(-min(weights, group) // size)
    ways: list[list[ConvTask]] = []
    for needed in sorted({least, -(-weights // size)}):
        room = (banks - needed) * size // row_bytes
        if needed < banks and room >= min(shape.rows.reach(1), shape.rows.size):
            ways.append(list(_cut(spec, base, shape, (low, high), min(room, MAX_ROWS))))
    if not ways:
        raise CannotLower(
            f"CBUF: {least} banks for one group of kernels and {shape.rows.reach(1)} rows of {row_bytes} "
            f"bytes do not fit {banks} banks of {size} bytes"
        )
    return min(ways, key=lambda tasks: cost(spec, [Tile(0, task) for task in tasks]))


def _cut(
    spec: RknnSpec, base: ConvTask, shape: Shape, span: tuple[int, int], room: int
) -> Iterator[ConvTask]:
    """Yield tasks of at most `room` input rows; later ones keep the weights in CBUF if all of them fit."""
    size, banks, (low, high) = spec.cbuf_bank_bytes, spec.cbuf_banks, span
    row_bytes = base.width * base.channels * numpy_dtype(base.in_dtype).itemsize
    rows = max(1, (room - shape.rows.reach(1)) // shape.rows.stride + 1)
    count = -(-(high - low) // rows)
    parts: list[tuple[int, int, int, int]] = []
    for number in range(count):
        first, last = (low + (high - low) * n // count for n in (number, number + 1))
        top = first * shape.rows.stride - shape.rows.before
        bottom = min(shape.rows.size, top + shape.rows.reach(last - first))
        parts.append((first, last, top, max(1, bottom - max(0, top))))
    # All tasks use the same banks: weights that stay must keep their place.
    data = max(1, -(-max(height for *_, height in parts) * row_bytes // size))
    stays = base.weight_bytes <= (banks - data) * size and not base.depthwise
    for number, (first, last, top, height) in enumerate(parts):
        begin = max(0, top)
        yield replace(
            base,
            height=height,
            out_height=last - first,
            pad_top=max(0, -top),
            data_banks=data,
            weight_banks=banks - data,
            weight_reuse=stays and number > 0,
            feature_grains=min(height + 1, 1023),
            feature_address=base.feature_address + begin * base.width * ATOM_BYTES,
            output_address=base.output_address + first * (shape.columns.out + base.row_notch) * ATOM_BYTES,
        )
