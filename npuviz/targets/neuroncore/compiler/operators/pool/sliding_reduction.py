"""Sliding reductions on Vector and GpSimd: one axis after another, each tap a strided view."""

from collections.abc import Iterator
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import Box, Range, step_slice
from npuviz.targets.neuroncore.compiler.operators.conv.loops import input_boxes
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.operators.windows import Axes, three_axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a pool: channels of any image on partitions.

    rows     images * channels [first, end)
    box      outputs;  origin  first input plane, row and column of `source`
    source   [rows, planes, rows, columns] in SBUF; not to be written
    out      where the result belongs, [rows, planes, rows, columns] of the box
    """

    rows: Range
    box: Box
    origin: tuple[int, int, int]
    source: View
    out: HbmView


def pool_axes(node: Node, source: HbmView, out: HbmView) -> Axes:
    """Axes of a pool from its attributes. Raises CannotLower for more than three."""
    kernel = attributes_of(node).integers("kernel_shape", [])
    return three_axes(node, source.shape, out.shape, kernel)


def windows(b: Builder, source: HbmView, out: HbmView, axes: Axes, share: int = 4) -> Iterator[Window]:
    """Parts that fit on chip, inputs fetched; tiles made in an iteration end with it.

    share  a source tile takes at most this part of SBUF
    """
    count = source.shape[0] * source.shape[1]
    flat = source.reshape(count, *(axis.size for axis in axes))
    target = out.reshape(count, *(axis.out for axis in axes))
    limit = b.spec.sbuf_usable_bytes // share
    boxes = input_boxes(axes, 1, max(2, item_bytes(source.dtype)), (limit, limit), None)
    for first, end in blocks(count, NUM_PARTITIONS):
        for box in boxes:
            cuts = [slice(*found) for found in box.inputs(axes)]
            if any(cut.start == cut.stop for cut in cuts):
                raise CannotLower("windows that hold padding only")
            with b.tiles.scope():
                tile = b.dma.fetch(flat[first:end, *cuts])
                origin = (cuts[0].start, cuts[1].start, cuts[2].start)
                yield Window((first, end), box, origin, tile, box.of(target[first:end]))


def slide(
    b: Builder, window: Window, axes: Axes, op: Alu, identity: float, dtype: str, source: View | None = None
) -> View:
    """`op` over the windows of all axes: [rows, planes, rows, columns] of the box, of `dtype`.

    source  instead of the window's own, of the same shape
    The result may be a view of the source where no axis has more than one tap.
    """
    value = window.source if source is None else source
    if all(_is_whole(axis) for axis in axes):
        total = b.tiles.sbuf(value.partitions, (1, 1, 1), dtype)
        b.isa.tensor_reduce(total, value, op, 3)
        return total
    ranges = (window.box.planes, window.box.rows, window.box.columns)
    origins = window.origin
    for index in (2, 1, 0):
        axis = axes[index]
        if axis.kernel == 1 and axis.stride == 1 and not axis.before and axis.out == axis.size:
            continue
        value = _slide_axis(b, value, index, axis, (ranges[index], origins[index]), (op, identity, dtype))
    return value


def _is_whole(axis: WindowAxis) -> bool:
    """Whether the only window is the whole axis."""
    return axis.out == 1 and axis.kernel == axis.size and not axis.before and axis.dilation == 1


def _slide_axis(
    b: Builder,
    value: View,
    index: int,
    axis: WindowAxis,
    where: tuple[Range, int],
    how: tuple[Alu, float, str],
) -> View:
    (begin, end), origin = where
    op, identity, dtype = how
    shape = list(value.shape)
    shape[index] = end - begin
    target = b.tiles.sbuf(value.partitions, tuple(shape), dtype)
    key: list[slice] = [slice(None)] * 4

    def part(view: View, chosen: slice) -> View:
        key[index + 1] = chosen
        return view[tuple(key)]

    spans = [axis.span(tap, begin, end) for tap in range(axis.kernel)]
    spans = sorted((span for span in spans if span.count), key=lambda span: -span.count)
    taps = [
        (
            slice(span.first - begin, span.end - begin),
            part(value, step_slice(span.source - origin, span.count, axis.stride)),
        )
        for span in spans
    ]
    num_full = sum(span.count == end - begin for span in spans)
    if num_full >= 2:
        b.isa.tensor_tensor(target, taps[0][1], taps[1][1], op)
    elif num_full == 1:
        b.isa.copy(target, taps[0][1])
    else:
        b.isa.memset(target, identity)
    for chosen, view in taps[min(num_full, 2) :]:
        part_of_target = part(target, chosen)
        b.isa.tensor_tensor(part_of_target, part_of_target, view, op)
    return target
