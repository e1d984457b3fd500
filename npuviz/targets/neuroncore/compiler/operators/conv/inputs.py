"""Load inputs of convolutions, and find the strided view that each tap reads (no im2col)."""

from dataclasses import dataclass

import numpy as np

from npuviz.onnx.semantics.windows import Span, WindowAxis
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.weights import Channels
from npuviz.targets.neuroncore.compiler.operators.windows import Axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu
from npuviz.targets.neuroncore.spec import NeuronSpec

MAX_PACKED_CHANNELS = 32
"""Most input channels for which kernel rows are put on partitions too."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of outputs of a convolution: half-open ranges of planes, rows and columns."""

    planes: Range
    rows: Range
    columns: Range

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sizes of the three ranges."""
        (d0, d1), (r0, r1), (w0, w1) = self.planes, self.rows, self.columns
        return d1 - d0, r1 - r0, w1 - w0

    def of(self, tensor: HbmView) -> HbmView:
        """Return the box of a tensor [channels, planes, rows, columns]."""
        return tensor[:, slice(*self.planes), slice(*self.rows), slice(*self.columns)]

    def inputs(self, axes: Axes) -> tuple[Range, Range, Range]:
        """Return the ranges of inputs that the outputs read; the whole axis if the box has all its
        outputs.
        """
        return (
            _inputs(axes[0], self.planes),
            _inputs(axes[1], self.rows),
            _inputs(axes[2], self.columns),
        )


@dataclass(frozen=True, slots=True)
class Tap:
    """One matmul: weights `index` of input part `part` times `moving`, added to part of an output box.

    rows, columns  the part of the box, from its start
    is_full        whether the part is the whole box
    """

    part: int
    index: int
    rows: Range
    columns: Range
    moving: View
    is_full: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """Loaded input parts [channels, planes, rows, columns], and the position of their first element."""

    views: list[View]
    plane: int
    row: int
    column: int


def _inputs(axis: WindowAxis, outputs: Range) -> Range:
    found = axis.inputs(*outputs)
    # The whole axis, because the operator before may have left that on chip.
    return (0, axis.size) if outputs == (0, axis.out) and found[0] < found[1] else found


def step_slice(first: int, count: int, stride: int) -> slice:
    """Return a slice of `count` positions from `first`, `stride` apart."""
    return slice(first, first + (count - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True)
class Values:
    """What a convolution reads: [images, channels, planes, rows, columns], as PE gets it.

    dtype  element type of PE's operands
    zero   number that stands for 0 in 8-bit integers and is subtracted on chip; None: nothing is
    """

    view: HbmView
    dtype: str
    zero: float | None = None

    @property
    def loaded_dtype(self) -> str:
        """Element type of the tiles that are loaded."""
        return self.dtype if self.zero is None else self.view.dtype

    def centred(self, b: Builder, tile: View) -> View:
        """Return a loaded tile as PE reads it."""
        if self.zero is None:
            return tile
        made = b.tiles.sbuf(tile.partitions, tile.shape, self.dtype)
        b.isa.tensor_scalar(made, tile, Alu.SUBTRACT, self.zero)
        return made


class DirectInput:
    """Inputs with channels on partitions; at borders, taps leave out the outputs that read padding."""

    def __init__(self, b: Builder, source: Values, axes: Axes, channels: Channels) -> None:
        self.b, self.source, self.axes, self.channels = b, source, axes, channels

    def load(self, image: int, group: int, box: Box) -> Loaded:
        """Load the inputs that the outputs of a box read."""
        planes, rows, columns = box.inputs(self.axes)
        if planes[0] == planes[1] or rows[0] == rows[1] or columns[0] == columns[1]:
            return Loaded([], 0, 0, 0)
        cut = (slice(*planes), slice(*rows), slice(*columns))
        first = group * self.channels.inputs
        views: list[View] = []
        for c0, c1 in self.channels.input_parts:
            part = self.source.view[image, first + c0 : first + c1, *cut]
            views.append(self.source.centred(self.b, self.b.dma.fetch(part, self.source.loaded_dtype)))
        return Loaded(views, planes[0], rows[0], columns[0])

    def taps(self, loaded: Loaded, box: Box) -> list[Tap]:
        """Return the matmuls of a box of one plane; first one that covers the box, if there is any."""
        found: list[Tap] = []
        depth, height, width = self.axes
        for plane in range(depth.kernel):
            at = depth.span(plane, *box.planes)
            for row in range(height.kernel):
                rows = height.span(row, *box.rows)
                for column in range(width.kernel):
                    columns = width.span(column, *box.columns)
                    if at.count and rows.count and columns.count:
                        index = (plane * height.kernel + row) * width.kernel + column
                        found += self._parts(loaded, box, index, (at, rows, columns))
        return sorted(found, key=lambda tap: not tap.is_full)

    def _parts(self, loaded: Loaded, box: Box, index: int, spans: tuple[Span, Span, Span]) -> list[Tap]:
        at, rows, columns = spans
        _, height, width = self.axes
        region_rows = (rows.first - box.rows[0], rows.end - box.rows[0])
        region_columns = (columns.first - box.columns[0], columns.end - box.columns[0])
        is_full = (rows.count, columns.count) == box.shape[1:]
        found: list[Tap] = []
        for part, view in enumerate(loaded.views):
            moving = view[
                :,
                at.source - loaded.plane,
                step_slice(rows.source - loaded.row, rows.count, height.stride),
                step_slice(columns.source - loaded.column, columns.count, width.stride),
            ]
            found.append(Tap(part, index, region_rows, region_columns, moving, is_full))
        return found


@dataclass(frozen=True, slots=True)
class Packing:
    """Kernel rows and `columns` neighbouring kernel columns that share the partitions with the channels.

    Partition (i, ky, c) holds the input rows that tap ky reads, shifted by i columns, with the border's
    zeros: position t is input column t - before + i * dilation.
    """

    columns: int
    axes: Axes

    @property
    def taps(self) -> int:
        """Number of groups of kernel columns, which is the number of matmuls of an output box."""
        return -(-self.axes[2].kernel // self.columns)

    def width(self, outputs: int) -> int:
        """Return the positions of a row that `outputs` output columns need."""
        axis = self.axes[2]
        return (self.taps - 1) * self.columns * axis.dilation + (outputs - 1) * axis.stride + 1

    def valid(self, shift: int, outputs: Range) -> Span:
        """Return the positions of a row that hold input columns, for a range of output columns and a
        shift.
        """
        axis = self.axes[2]
        source = outputs[0] * axis.stride - axis.before + shift * axis.dilation
        first = max(0, -source)
        end = min(self.width(outputs[1] - outputs[0]), axis.size - source)
        return Span(first, max(first, end), source + first)

    def weights(self, array: np.ndarray) -> np.ndarray:
        """Convert weights [outputs, inputs, kernel rows, kernel columns] to [outputs, partitions, taps]."""
        outputs, inputs, rows, columns = array.shape
        missing = self.taps * self.columns - columns
        if missing:
            array = np.pad(array, ((0, 0), (0, 0), (0, 0), (0, missing)))
        split = array.reshape(outputs, inputs, rows, self.taps, self.columns)
        return split.transpose(0, 4, 2, 1, 3).reshape(outputs, -1, self.taps)


def choose_packing(axes: Axes, channels: Channels, item: int, spec: NeuronSpec) -> Packing | None:
    """Return the packing that takes the least time if PE and DMA work in parallel; None if none fits.

    Each further column saves matmuls and loads the input once more.
    """
    depth, height, width = axes
    lanes = channels.inputs * height.kernel
    if (
        channels.groups > 1
        or channels.inputs > MAX_PACKED_CHANNELS
        or depth.kernel * depth.size > 1
        or height.kernel * width.kernel == 1
        or lanes > NUM_PARTITIONS
    ):
        return None
    passes = spec.matmul_row_cycles * (spec.matmul_fp32_passes if item == 4 else 1)
    element = spec.element_ns(width.size * item, spec.dma_peak_bytes_per_ns)

    def cycles(columns: int) -> float:
        packing = Packing(columns, axes)
        on_pe = packing.taps * height.out * width.out * passes
        elements = columns * lanes * height.out
        return max(on_pe, elements * element / spec.num_dma_engines * spec.pe_hz / 1e9)

    most = min(width.kernel, NUM_PARTITIONS // lanes)
    return Packing(min(range(1, most + 1), key=cycles), axes)


class PackedInput:
    """Inputs with few channels, packed (Packing) so that PE sums several taps at once."""

    def __init__(self, b: Builder, source: Values, packing: Packing, inputs: int) -> None:
        self.b, self.source, self.packing, self.inputs = b, source, packing, inputs

    def load(self, image: int, group: int, box: Box) -> Loaded:
        """Load a tile [shifts * kernel rows * channels, 1, output rows, positions]."""
        del group
        packing = self.packing
        height = packing.axes[1]
        count = box.rows[1] - box.rows[0]
        lanes = height.kernel * self.inputs
        width = packing.width(box.shape[2])
        tile = self.b.tiles.sbuf(packing.columns * lanes, (1, count, width), self.source.loaded_dtype)
        spans = [height.span(row, *box.rows) for row in range(height.kernel)]
        self._clear(tile[:, 0], spans, box)
        for shift in range(packing.columns):
            valid = packing.valid(shift, box.columns)
            for row, span in enumerate(spans):
                if span.count and valid.count:
                    lane = shift * lanes + row * self.inputs
                    rows = slice(span.first - box.rows[0], span.end - box.rows[0])
                    where = tile[lane : lane + self.inputs, 0, rows, valid.first : valid.end]
                    lines = step_slice(span.source, span.count, height.stride)
                    columns = slice(valid.source, valid.source + valid.count)
                    self.b.dma.load(where, self.source.view[image, :, 0, lines, columns])
        return Loaded([self.source.centred(self.b, tile)], 0, box.rows[0], box.columns[0])

    def _clear(self, tile: View, spans: list[Span], box: Box) -> None:
        """Write what stands for 0 where some partition has no input."""
        zero = self.source.zero or 0.0
        count = box.rows[1] - box.rows[0]
        top = max(span.first - box.rows[0] if span.count else count for span in spans)
        bottom = max(box.rows[1] - span.end if span.count else count for span in spans)
        valid = [self.packing.valid(shift, box.columns) for shift in range(self.packing.columns)]
        left, right = max(span.first for span in valid), min(span.end for span in valid)
        if top + bottom >= count or left >= right:
            self.b.isa.memset(tile, zero)
            return
        for part in (
            tile[:, :top],
            tile[:, count - bottom :],
            tile[:, top : count - bottom, :left],
            tile[:, top : count - bottom, right:],
        ):
            if part.free_size:
                self.b.isa.memset(part, zero)

    def taps(self, loaded: Loaded, box: Box) -> list[Tap]:
        """Return the matmuls of a box, one for each group of kernel columns; each covers the box."""
        width = self.packing.axes[2]
        rows = slice(box.rows[0] - loaded.row, box.rows[1] - loaded.row)
        whole = ((0, box.shape[1]), (0, box.shape[2]))
        first = (box.columns[0] - loaded.column) * width.stride
        step = self.packing.columns * width.dilation
        return [
            Tap(
                0,
                tap,
                *whole,
                loaded.views[0][:, 0, rows, step_slice(first + tap * step, box.shape[2], width.stride)],
                True,
            )
            for tap in range(self.packing.taps)
        ]


Input = DirectInput | PackedInput
