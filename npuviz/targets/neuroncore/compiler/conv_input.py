"""Inputs of convolutions on chip, and which part each tap reads. No im2col: taps are strided views."""

from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.builder import Builder
from npuviz.targets.neuroncore.compiler.conv_weights import Channels
from npuviz.targets.neuroncore.compiler.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.view import View
from npuviz.targets.neuroncore.compiler.windows import Axis, Span

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Box:
    """Outputs [planes) x [rows) x [columns) of a convolution."""

    planes: Range
    rows: Range
    columns: Range

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sizes of the three ranges."""
        (d0, d1), (r0, r1), (w0, w1) = self.planes, self.rows, self.columns
        return d1 - d0, r1 - r0, w1 - w0


@dataclass(frozen=True, slots=True)
class Tap:
    """One matmul: weights `index` of input part `part` times `moving`, added to part of an output box.

    rows, columns  of the box, from its start
    is_full        it covers the whole box
    """

    part: int
    index: int
    rows: Range
    columns: Range
    moving: View
    is_full: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """Views of the parts [channels, planes, rows, columns], and the positions of their first elements."""

    views: list[View]
    plane: int
    row: int


def step_slice(first: int, count: int, stride: int) -> slice:
    """`count` positions from `first`, `stride` apart."""
    return slice(first, first + (count - 1) * stride + 1, stride)


class DirectInput:
    """Channels on partitions, planes as they are; borders by leaving out outputs without data."""

    def __init__(
        self, b: Builder, source: HbmView, axes: tuple[Axis, Axis, Axis], channels: Channels, dtype: str
    ) -> None:
        self.b, self.source, self.axes, self.channels, self.dtype = b, source, axes, channels, dtype

    def load(self, image: int, group: int, box: Box) -> Loaded:
        """What the outputs of a box read."""
        planes = self.axes[0].inputs(*box.planes)
        rows = self.axes[1].inputs(*box.rows)
        if planes[0] == planes[1] or rows[0] == rows[1]:
            return Loaded([], 0, 0)
        first = group * self.channels.inputs
        views: list[View] = []
        for c0, c1 in self.channels.input_parts:
            part = self.source[image, first + c0 : first + c1, planes[0] : planes[1], rows[0] : rows[1]]
            views.append(self.b.fetch(part, self.dtype))
        return Loaded(views, planes[0], rows[0])

    def taps(self, loaded: Loaded, box: Box) -> list[Tap]:
        """Matmuls of a box of one plane, one that covers it first if there is any."""
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
                step_slice(columns.source, columns.count, width.stride),
            ]
            found.append(Tap(part, index, region_rows, region_columns, moving, is_full))
        return found


class RowPackedInput:
    """Few channels: kernel rows are partitions too, partition (ky, c) holding the rows that tap ky reads.

    So PE sums kernel rows and channels at once. Rows beyond the border are zeros.
    """

    def __init__(
        self, b: Builder, source: HbmView, axes: tuple[Axis, Axis, Axis], channels: Channels, dtype: str
    ) -> None:
        self.b, self.source, self.axes, self.channels, self.dtype = b, source, axes, channels, dtype

    def load(self, image: int, group: int, box: Box) -> Loaded:
        """A tile [kernel rows * channels, 1, output rows, columns]."""
        _, height, width = self.axes
        count = box.rows[1] - box.rows[0]
        per_row = self.channels.inputs // height.kernel
        tile = self.b.sbuf(self.channels.inputs, (1, count, width.size), self.dtype)
        spans = [height.span(row, *box.rows) for row in range(height.kernel)]
        top = max(span.first - box.rows[0] if span.count else count for span in spans)
        bottom = max(box.rows[1] - span.end if span.count else count for span in spans)
        if top + bottom >= count:
            self.b.memset(tile, 0.0)
        else:
            if top:
                self.b.memset(tile[:, :, :top], 0.0)
            if bottom:
                self.b.memset(tile[:, :, count - bottom :], 0.0)
        first = group * per_row
        for row, span in enumerate(spans):
            if span.count:
                where = tile[
                    row * per_row : (row + 1) * per_row,
                    0,
                    span.first - box.rows[0] : span.end - box.rows[0],
                ]
                rows = step_slice(span.source, span.count, height.stride)
                self.b.load(where, self.source[image, first : first + per_row, 0, rows])
        return Loaded([tile], 0, box.rows[0])

    def taps(self, loaded: Loaded, box: Box) -> list[Tap]:
        """Matmuls of a box: one per kernel column."""
        width = self.axes[2]
        rows = (box.rows[0] - loaded.row, box.rows[1] - loaded.row)
        found: list[Tap] = []
        for column in range(width.kernel):
            span = width.span(column, *box.columns)
            if span.count:
                columns = (span.first - box.columns[0], span.end - box.columns[0])
                moving = loaded.views[0][
                    :, 0, rows[0] : rows[1], step_slice(span.source, span.count, width.stride)
                ]
                is_full = span.count == box.shape[2]
                found.append(Tap(0, column, (0, rows[1] - rows[0]), columns, moving, is_full))
        return sorted(found, key=lambda tap: not tap.is_full)


Input = DirectInput | RowPackedInput
