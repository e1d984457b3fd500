"""Lower convolutions whose windows, padding or rows do not fit a task: turned by a quarter, or cut into taps.

A convolution that is cut is a sum of convolutions with parts of the kernel, each over the input from its own
tap on; EW adds the earlier parts. Padding that exceeds the registers is zeros in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, Stages
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.moving import Span, move, whole
from npuviz.targets.rk3588.compiler.operators.activation import emit_activation
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape
from npuviz.targets.rk3588.task.work import ATOM_BYTES

MOST_TAPS = 31
"""Most taps of a row or column of a kernel: 5 bits. Ref: XML."""
MOST_APART = 32
"""Most positions between taps: 5 bits for one less. Ref: XML."""

Ends = tuple[Buffer, Buffer]


def convolve_anyhow(b: Builder, layer: Layer, shape: Shape, operands: Operands, ends: Ends) -> None:
    """Emit a convolution in the first way that fits registers and CBUF. Raises the refusal of the plainest
    way."""
    ways: list[Callable[[], None]] = [
        lambda: convolve_into(b, layer, shape, operands, ends, fuses=True),
        lambda: _turned(b, layer, shape, operands, ends),
        lambda: _cut_into_taps(b, layer, shape, operands, ends),
    ]
    refused: Exception | None = None
    for way in ways:
        mark = b.mark()
        try:
            way()
        except (CannotLower, ValueError, DoesNotFit, FormatError) as error:
            b.roll_back(mark)
            refused = refused or error
        else:
            return
    assert refused is not None
    raise refused


def _turned(b: Builder, layer: Layer, shape: Shape, operands: Operands, ends: Ends) -> None:
    """Emit a convolution of a single row as one of a column, which tasks can cut: the bytes are the same."""
    rows = shape.rows
    if rows.size != 1 or rows.out != 1 or rows.kernel != 1:
        raise CannotLower("more than one row")
    turned = Shape(shape.columns, rows, shape.is_depthwise)
    weights = np.ascontiguousarray(operands.weights.swapaxes(2, 3))
    source, target = (_column(buffer) for buffer in ends)
    convolve_into(b, layer, turned, replace(operands, weights=weights), (source, target), fuses=True)


def _column(buffer: Buffer) -> Buffer:
    images, channels, height, width = cube_shape(buffer.shape)
    return replace(buffer, shape=(images, channels, width, height))


# --- taps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """The taps first..end-1 of both axes of a kernel."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    def weights(self, whole_kernel: np.ndarray) -> np.ndarray:
        """Return the part of weights (K, C, R, S) with these taps."""
        return np.ascontiguousarray(whole_kernel[:, :, slice(*self.rows), slice(*self.columns)])


def _cut_into_taps(b: Builder, layer: Layer, shape: Shape, operands: Operands, ends: Ends) -> None:
    if operands.held is not None:
        raise CannotLower(
            "weights that only a run tells, in a window that no task holds", change="constant weights"
        )
    if operands.factors is not None:
        raise CannotLower("sums of parts in int8, whose rounding in between the model has not")
    source, target = ends
    if shape.rows.size == shape.rows.out == shape.rows.kernel == 1:
        shape = Shape(shape.columns, shape.rows, shape.is_depthwise)
        source, target = _column(source), _column(target)
        operands = replace(operands, weights=operands.weights.swapaxes(2, 3))
    padded, rows, columns = _padded(b, layer, shape, source)
    parts = _parts(b, rows, columns, operands.weights.shape[0 if shape.is_depthwise else 1], padded)
    fused = layer.activation
    sums: Buffer | None = None
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        place = target
        if not is_last or fused is not None:
            place = b.scratch(f"{_name(layer)} sum {number}", cube_shape(target.shape), target.dtype)
        bias = operands.bias if number == 0 else np.zeros_like(operands.bias)
        skipped = part.rows[0] * rows.dilation * columns.size + part.columns[0] * columns.dilation
        begin = replace(padded, address=padded.address + skipped * ATOM_BYTES)
        window = Shape(_axis(rows, part.rows), _axis(columns, part.columns), shape.is_depthwise)
        second = None if sums is None else (sums, ALU_ADD)
        share = Operands(part.weights(operands.weights), bias)
        convolve_into(b, layer, window, share, (begin, place), second=second)
        b.begin_layer()
        sums = place
    if fused is not None:
        assert sums is not None
        emit_activation(b, layer, sums, target)


def _name(layer: Layer) -> str:
    return layer.head.name or layer.head.op_type


def _axis(axis: WindowAxis, taps: tuple[int, int]) -> WindowAxis:
    """Return the windows of some taps. Rows stay as far apart as they are: the last taps are not reached."""
    count = taps[1] - taps[0]
    return WindowAxis(axis.size, axis.out, count, axis.stride, axis.dilation if count > 1 else 1)


def _padded(b: Builder, layer: Layer, shape: Shape, source: Buffer) -> tuple[Buffer, WindowAxis, WindowAxis]:
    """Return the input with its padding in memory, and room after it for rows that begin with a later tap.

    Returns the input itself if it needs neither.
    """
    rows, columns = (
        replace(axis, size=max(axis.reach(axis.out), axis.before + axis.size), before=0, after=0)
        for axis in (shape.rows, shape.columns)
    )
    images, channels, *size = cube_shape(source.shape)
    if size == [rows.size, columns.size] and columns.kernel == 1:
        return source, rows, columns
    room = columns.reach(1) * ATOM_BYTES
    name = f"{_name(layer)} padded"
    made = b.cleared(name, (images, channels, rows.size, columns.size), source.dtype, room)
    given = replace(
        whole(made),
        rows=Span(shape.rows.before, shape.rows.size),
        columns=Span(shape.columns.before, shape.columns.size),
    )
    move(b, layer, (source, made), (whole(source), given), Stages())
    b.begin_layer()
    return made, rows, columns


def _parts(
    b: Builder, rows: WindowAxis, columns: WindowAxis, channels: int, padded: Buffer
) -> Sequence[_Part]:
    """Return the fewest parts of about the same size that the registers and CBUF hold."""
    item = numpy_dtype(padded.dtype).itemsize
    deep = aligned(channels, packing(padded.dtype).channels) * item
    size, banks = b.spec.cbuf_bank_bytes, b.spec.cbuf_banks
    both = rows, columns
    counts = [-(-axis.kernel // (MOST_TAPS if axis.dilation <= MOST_APART else 1)) for axis in both]
    while True:
        taps = [-(-axis.kernel // count) for axis, count in zip(both, counts, strict=True)]
        group = packing(padded.dtype).kernels * taps[0] * taps[1] * deep
        reach = ((taps[0] - 1) * rows.dilation + 1) * columns.size * deep
        if -(-group // size) + -(-reach // size) <= banks:
            break
        if taps == [1, 1]:
            raise CannotLower(
                f"CBUF: a row of {columns.size * deep} bytes and one group of kernels do not fit",
                str(columns.size * deep),
                f"rows of at most {(banks - 1) * size} bytes",
            )
        # Fewer rows or a narrower kernel, whichever is larger.
        at = 0 if taps[0] > 1 and (taps[0] >= taps[1] or taps[1] == 1) else 1
        counts[at] += 1
    edges = [
        [axis.kernel * number // count for number in range(count + 1)]
        for axis, count in zip(both, counts, strict=True)
    ]
    return [_Part(row, column) for row, column in product(pairwise(edges[0]), pairwise(edges[1]))]
