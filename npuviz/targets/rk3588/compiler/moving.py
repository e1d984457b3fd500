"""Move parts of cubes to parts of cubes: by DPU tasks that keep atoms whole, and across channels by CORE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import DPU_ENABLES, MAX_SIDE, Move, Plane, chunks, copy_words
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import ATOM_BYTES

AXES = ("images", "channels", "rows", "columns")
"""Fields of a Window by the axes of a cube."""
MAX_WRITTEN = 8192
"""Most channels times positions of a row that is written apart: 13 bits of WDMA_SIZE_0. Ref: XML."""


@dataclass(frozen=True, slots=True)
class Span:
    """Indices at equal steps from a first one on."""

    first: int
    count: int
    step: int = 1

    def part(self, low: int, high: int) -> "Span":
        """Return the span of its indices from the low-th to before the high-th."""
        return Span(self.first + low * self.step, high - low, self.step)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a cube: images, channels, rows, columns."""

    images: Span
    channels: Span
    rows: Span
    columns: Span

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Sizes of all axes."""
        return self.images.count, self.channels.count, self.rows.count, self.columns.count


def whole(buffer: Buffer) -> Window:
    """Return the window of all of a cube."""
    images, channels, rows, columns = (Span(0, size) for size in cube_shape(buffer.shape))
    return Window(images, channels, rows, columns)


def cube_axes(shape: Sequence[int], buffer: Buffer) -> tuple[int, ...]:
    """Return the axis of the cube (N, C, H, W) for every axis of a tensor.

    Raises CannotLower if the buffer joins axes of the tensor.
    """
    if len(buffer.shape) != len(shape):
        if len(shape) > 2 and len(buffer.shape) == 2 and sum(size > 1 for size in shape[:-1]) < 2:
            return (*[2] * (len(shape) - 1), 1)
        raise CannotLower(f"{tuple(shape)} is stored as {buffer.shape}")
    return {4: (0, 1, 2, 3), 3: (0, 1, 3), 2: (2, 1), 1: (1,)}[len(shape)]


def is_by_atoms(buffer: Buffer, channels: Span, end: int) -> bool:
    """Return whether channels are whole atoms of a cube. end  where what the caller may overwrite begins"""
    group = packing(buffer.dtype).channels
    stop = channels.first + channels.count
    return channels.step == 1 and channels.first % group == 0 and (stop % group == 0 or stop == end)


def move(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], windows: tuple[Window, Window], stages: Stages
) -> None:
    """Emit tasks that write a window of one cube to a window of another, changed by the stages.

    Channels are whole atoms in both. Raises CannotLower or FormatError for moves that registers cannot
    express.
    """
    if stages == Stages():
        windows = _in_pairs(ends, windows)
    _, *sizes = windows[0].counts
    far = max(_row(end) * window.rows.step for end, window in zip(ends, windows, strict=True))
    for channels, rows, columns in _chunks_of(sizes[0], sizes[1], sizes[2], far):
        taken, given = (
            Window(
                window.images,
                window.channels.part(*channels),
                window.rows.part(*rows),
                window.columns.part(*columns),
            )
            for window in windows
        )
        _move_part(b, layer, ends, (taken, given), stages.from_channel(channels[0]))


def _in_pairs(ends: tuple[Buffer, Buffer], windows: tuple[Window, Window]) -> tuple[Window, Window]:
    """Return the windows with one channel more where an odd number of 8-bit channels ends the target.

    Copies of pairs take half as long (`copy_words`). What comes beside the last channel fills its atom up, in
    which nothing is read unless the cube is relied on to hold zeros.
    """
    (source, target), (taken, given) = ends, windows
    stop = given.channels.first + given.channels.count
    is_last = stop == cube_shape(target.shape)[1] and not target.is_cleared
    is_whole = taken.channels.step == given.channels.step == 1
    if not (is_last and is_whole and stop % 2 and source.dtype == target.dtype == "int8"):
        return windows
    wider = taken.channels.part(0, taken.channels.count + 1), given.channels.part(0, given.channels.count + 1)
    return replace(taken, channels=wider[0]), replace(given, channels=wider[1])


def _chunks_of(
    channels: int, rows: int, columns: int, far: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """Yield what single tasks move: channels, rows and columns from one to before another.

    far  columns from row to row, of which those that are left out have a field, too
    """
    for channel, column in product(chunks(0, channels, MAX_SIDE), chunks(0, columns, MAX_SIDE)):
        left_out = far - (column[1] - column[0])
        for row in chunks(0, rows, MAX_SIDE if left_out < MAX_SIDE else 1):
            yield channel, row, column


def _move_part(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], windows: tuple[Window, Window], stages: Stages
) -> None:
    source, target = ends
    taken, given = windows
    _, channels, rows, columns = taken.counts
    size = columns * channels
    if taken.columns.step > 1 or (given.columns.step > 1 and size > MAX_WRITTEN):
        _move_surfaces(b, layer, ends, windows, stages)
        return
    dtypes = source.dtype, target.dtype
    for image in range(taken.images.count):
        places = _place(source, taken, image), _place(target, given, image)
        planes = (
            Plane(_surface(source), _row(source) * taken.rows.step),
            Plane(_surface(target), _row(target) * given.rows.step, given.columns.step),
        )
        words = copy_words(Move((channels, rows, columns), places, dtypes, *planes), stages)
        b.task(layer.head.id, image % b.spec.cores, words, DPU_ENABLES)


def _move_surfaces(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], windows: tuple[Window, Window], stages: Stages
) -> None:
    """Emit a task for each surface: rows of the task stand for surfaces, its columns for rows."""
    (source, target), (taken, given) = ends, windows
    group = packing(source.dtype).channels
    _, channels, rows, columns = taken.counts
    if source.dtype != target.dtype or stages.reads_memory:
        raise CannotLower("columns apart that change their type on the way")
    planes = (
        Plane(_row(source) * taken.rows.step, taken.columns.step),
        Plane(_row(target) * given.rows.step, given.columns.step),
    )
    number = 0
    for image in range(taken.images.count):
        begin, end = _place(source, taken, image), _place(target, given, image)
        for surface in range(-(-channels // group)):
            places = (
                begin + surface * _surface(source) * ATOM_BYTES,
                end + surface * _surface(target) * ATOM_BYTES,
            )
            size = (rows * group, columns, 1)
            words = copy_words(Move(size, places, (source.dtype, target.dtype), *planes), stages)
            b.task(layer.head.id, number % b.spec.cores, words, DPU_ENABLES)
            number += 1


def _surface(buffer: Buffer) -> int:
    _, _, height, width = cube_shape(buffer.shape)
    return height * width


def _row(buffer: Buffer) -> int:
    return cube_shape(buffer.shape)[3]


def _place(buffer: Buffer, window: Window, image: int) -> int:
    """Return the address of the first atom of an image of a window."""
    group = packing(buffer.dtype).channels
    atom = (
        window.channels.first // group * _surface(buffer)
        + window.rows.first * _row(buffer)
        + window.columns.first
    )
    number = window.images.first + image * window.images.step
    return buffer.address + number * image_bytes(buffer.shape, buffer.dtype) + atom * ATOM_BYTES


def select(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    channels: Sequence[int],
    scales: tuple[Sequence[Quantisation | None], Quantisation | None] = ((), None),
) -> None:
    """Emit a product with ones and zeros that brings channels of one cube to those of another of the same
    size.

    channels  for every channel of the target, its number in the source, -1 for zeros
    scales    of these channels of the source, and of the target
    """
    source = ends[0]
    given, (height, width) = cube_shape(source.shape)[1], cube_shape(source.shape)[2:]
    kind = numpy_dtype(source.dtype)
    weights = np.zeros((len(channels), given, 1, 1), kind)
    wanted = [number for number, channel in enumerate(channels) if channel >= 0]
    weights[wanted, [channels[number] for number in wanted]] = 1
    taken, out = scales
    bias = np.zeros(len(channels), np.float32 if kind.kind == "f" else np.int32)
    operands = Operands(weights, bias)
    if kind.kind != "f":
        operands = Operands(weights, bias, np.ones(len(channels)))
        if out is not None and any(scaled not in (None, out) for scaled in taken):
            known = [scaled or out for scaled in taken]
            sums = np.array([-scaled.zero_point for scaled in known], np.int32)
            factors = np.array([scaled.scale / out.scale for scaled in known])
            operands = Operands(weights, sums, factors, out.zero_point)
    shape = Shape(WindowAxis(height, height), WindowAxis(width, width))
    convolve_into(b, layer, shape, operands, ends)
