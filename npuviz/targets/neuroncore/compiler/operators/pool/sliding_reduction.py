"""Reduce over sliding windows on Vector and GpSimd: one axis after another, each tap a strided view."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

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

# Assumed: rows of 2 KiB give a DMA elements of full length (512 B or more) and keep an engine busy for
# longer than an instruction takes to start; longer rows would only delay the first result. Fewer parts than
# DMA engines would leave loads, reductions and stores waiting for each other.
_ROW_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a pool: images (channels of any image) on partitions; small ones share a row (partition).

    images  [first, end) of all images
    axes    window axes of a row; the images that share it are its planes
    box     outputs;  origin  first input plane, row and column of `source`
    source  [rows, planes, rows, columns] in SBUF; not to be written
    """

    images: Range
    axes: Axes
    box: Box
    origin: tuple[int, int, int]
    source: View

    def outputs_of(self, tensor: HbmView) -> HbmView:
        """Return the window's part, [rows, planes, rows, columns], of a tensor of the output's shape."""
        return self.box.of(_rows_of(tensor, self.images, tuple(axis.out for axis in self.axes)))


def pool_axes(node: Node, source: HbmView, out: HbmView) -> Axes:
    """Return the window axes of a pool from its attributes. Raises CannotLower for more than three."""
    kernel = attributes_of(node).integers("kernel_shape", [])
    return three_axes(node, source.shape, out.shape, kernel)


def windows(b: Builder, source: HbmView, axes: Axes, share: int = 4) -> Iterator[Window]:
    """Yield the parts that fit on chip, with inputs fetched; tiles made in an iteration end with it.

    share  a source tile takes at most 1 / share of SBUF
    """
    limit = b.spec.sbuf_usable_bytes // share
    image_bytes = prod(axis.size for axis in axes) * item_bytes(source.dtype)
    is_flat = axes[0] == WindowAxis(1, 1)
    for images, num_stacked in stacks(b, source.shape[0] * source.shape[1], image_bytes if is_flat else None):
        stacked = (WindowAxis(num_stacked, num_stacked), *axes[1:]) if is_flat else axes
        rows = _rows_of(source, images, tuple(axis.size for axis in stacked))
        for box in input_boxes(stacked, 1, max(2, item_bytes(source.dtype)), (limit, limit), None):
            cuts = [slice(*found) for found in box.inputs(stacked)]
            if any(cut.start == cut.stop for cut in cuts):
                raise CannotLower("windows that hold padding only")
            with b.tiles.scope():
                tile = b.dma.fetch(rows[:, *cuts])
                origin = (cuts[0].start, cuts[1].start, cuts[2].start)
                yield Window(images, stacked, box, origin, tile)


def stacks(b: Builder, count: int, image_bytes: int | None) -> Iterator[tuple[Range, int]]:
    """Yield ranges of `count` images for one instruction each, and the images that share a partition.

    image_bytes  bytes of an image, to stack images to rows of a good length for DMA; None never stacks
    """
    num_stacked = 1
    if image_bytes is not None:
        shared = count // (NUM_PARTITIONS * b.spec.num_dma_engines)
        num_stacked = max(1, min(_ROW_BYTES // max(1, image_bytes), shared))
    first = 0
    if num_stacked > 1:
        step = num_stacked * NUM_PARTITIONS
        for first in range(0, count - step + 1, step):
            yield (first, first + step), num_stacked
        first += step
    for begin, end in blocks(count - first, NUM_PARTITIONS):
        yield (first + begin, first + end), 1


def _rows_of(tensor: HbmView, images: Range, image: tuple[int, ...]) -> HbmView:
    """Return images [first, end) of a tensor [images, channels, ...] as rows of a shape."""
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], -1)[slice(*images)].reshape(-1, *image)


def slide(
    b: Builder, window: Window, op: Alu, identity: float, dtype: str, source: View | None = None
) -> View:
    """Reduce by `op` over the windows of all axes: [rows, planes, rows, columns] of the box, of `dtype`.

    source  values to use instead of the window's source, of the same shape
    The result may be a view of the source where no axis has more than one tap.
    """
    value = window.source if source is None else source
    axes = window.axes
    if all(_is_whole(axis) for axis in axes[1:]) and (_is_whole(axes[0]) or _is_untouched(axes[0])):
        num_reduced = 3 if _is_whole(axes[0]) else 2
        planes = window.box.shape[0]
        total = b.tiles.sbuf(value.partitions, (planes, 1, 1), dtype)
        b.isa.tensor_reduce(total if num_reduced == 3 else total[:, :, 0, 0], value, op, num_reduced)
        return total
    ranges = (window.box.planes, window.box.rows, window.box.columns)
    origins = window.origin
    for index in (2, 1, 0):
        axis = axes[index]
        if _is_untouched(axis):
            continue
        value = _slide_axis(b, value, index, axis, (ranges[index], origins[index]), (op, identity, dtype))
    return value


def _is_whole(axis: WindowAxis) -> bool:
    """Return whether the only window is the whole axis."""
    return axis.out == 1 and axis.kernel == axis.size and not axis.before and axis.dilation == 1


def _is_untouched(axis: WindowAxis) -> bool:
    """Return whether every output is the input at the same place."""
    return axis.kernel == 1 and axis.stride == 1 and not axis.before and axis.out == axis.size


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
