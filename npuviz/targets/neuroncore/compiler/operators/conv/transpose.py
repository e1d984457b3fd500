"""Lower ConvTranspose: each tap adds to a strided view of the outputs in PSUM."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import Span
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import Box, Range, step_slice
from npuviz.targets.neuroncore.compiler.operators.conv.loops import bank_boxes
from npuviz.targets.neuroncore.compiler.operators.conv.weights import Channels
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Epilogue
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import operand_dtype
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks, even_blocks
from npuviz.targets.neuroncore.compiler.operators.windows import MAX_AXES
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS


@dataclass(frozen=True, slots=True)
class Spread:
    """One axis: tap k of input i adds to output i * stride + k * dilation - before."""

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def span(self, tap: int, begin: int, end: int) -> tuple[Span, int]:
        """Return the inputs [first, end) whose tap reaches outputs [begin, end), and the first such
        output.
        """
        shift = tap * self.dilation - self.before
        first = max(0, -((shift - begin) // self.stride))
        last = min(self.size, -((shift - end) // self.stride))
        return Span(first, max(first, last), first), first * self.stride + shift

    def inputs(self, begin: int, end: int) -> Range:
        """Return the half-open range of inputs that reach outputs [begin, end)."""
        spans = [self.span(tap, begin, end)[0] for tap in range(self.kernel)]
        used = [span for span in spans if span.count]
        if not used:
            return 0, 0
        return min(span.first for span in used), max(span.end for span in used)


Axes = tuple[Spread, Spread, Spread]


def lower_conv_transpose(b: Builder, node: Node) -> None:
    """Lower ConvTranspose."""
    conv_transpose_group(b, node, ())


def conv_transpose_group(b: Builder, node: Node, followers: Sequence[Node]) -> None:
    """Lower a ConvTranspose and element-wise operators on its result."""
    present = [tensor for tensor in node.inputs if tensor >= 0]
    require_floats(b, present)
    result = followers[-1].outputs[0] if followers else node.outputs[0]
    bias = b.hbm[node.inputs[2]].reshape(-1, 1) if len(present) > 2 else None
    _Transposed(b, node, bias, Epilogue(b, node, followers, result)).run()


def spread_axes(node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]) -> Axes:
    """Return the axes of a ConvTranspose. Raises CannotLower for more than three."""
    rank = len(kernel)
    if not 1 <= rank <= MAX_AXES:
        raise CannotLower(f"{rank} spatial axes")
    attributes = attributes_of(node)
    strides, dilations = (attributes.integers(name, [1] * rank) for name in ("strides", "dilations"))
    extra = attributes.integers("output_padding", [0] * rank)
    pads = attributes.integers("pads", [0] * (2 * rank))
    automatic = attributes.text("auto_pad", "NOTSET")
    axes: list[Spread] = []
    for i in range(rank):
        size, out = in_shape[2 + i], out_shape[2 + i]
        before = pads[i]
        if automatic != "NOTSET" or attributes.given.get("output_shape"):
            span = (kernel[i] - 1) * dilations[i] + 1
            total = max(0, strides[i] * (size - 1) + extra[i] + span - out)
            before = total // 2 if automatic == "SAME_UPPER" else total - total // 2
        axes.append(Spread(size, out, kernel[i], strides[i], dilations[i], before))
    while len(axes) < MAX_AXES:
        axes.insert(0, Spread(1, 1))
    return axes[0], axes[1], axes[2]


class _Transposed:
    """Emits the loops of one node."""

    def __init__(self, b: Builder, node: Node, bias: HbmView | None, epilogue: Epilogue) -> None:
        self.b, self.bias, self.epilogue = b, bias, epilogue
        source, weights = b.hbm[node.inputs[0]], b.hbm[node.inputs[1]]
        out = b.hbm[epilogue.result]
        self.dtype = operand_dtype(b, source.dtype)
        kernel = weights.shape[2:]
        self.axes = spread_axes(node, source.shape, out.shape, kernel)
        groups = int(node.attributes.get("group", 1))
        self.channels = Channels(groups, source.shape[1] // groups, out.shape[1] // groups)
        self.shape = (*out.shape[:2], *(axis.out for axis in self.axes))
        self.source = source.reshape(*source.shape[:2], *(axis.size for axis in self.axes))
        self.weights = weights.reshape(weights.shape[0], self.channels.outputs, -1)
        self.out = out.reshape(*self.shape)

    def run(self) -> None:
        """Emit all loops."""
        for image in range(self.shape[0]):
            for group in range(self.channels.groups):
                for planes, rows in self._boxes():
                    with self.b.tiles.scope():
                        box = Box(planes, rows, (0, self.axes[2].out))
                        self._box(image, group, box)

    def _boxes(self) -> list[tuple[Range, Range]]:
        """Divide output planes and rows into ranges whose inputs and outputs fit on chip."""
        depth, height, width = self.axes
        item = item_bytes(self.dtype)
        limit = self.b.spec.sbuf_usable_bytes // 4
        parts = len(self.channels.input_parts)
        planes, rows = depth.out, height.out
        while planes * rows > 1:
            d = depth.inputs(0, planes) if planes == depth.out else (0, planes + depth.kernel)
            h = height.inputs(0, rows) if rows == height.out else (0, rows + height.kernel)
            inputs = parts * (d[1] - d[0]) * (h[1] - h[0]) * width.size * item
            if inputs <= limit and planes * rows * width.out * item <= limit:
                break
            if planes > 1:
                planes = -(-planes // 2)
            else:
                rows = -(-rows // 2)
        return [(p, r) for p in even_blocks(depth.out, planes) for r in even_blocks(height.out, rows)]

    def _box(self, image: int, group: int, box: Box) -> None:
        b = self.b
        planes, rows = self.axes[0].inputs(*box.planes), self.axes[1].inputs(*box.rows)
        first = group * self.channels.inputs
        parts = self.channels.input_parts if planes[0] < planes[1] and rows[0] < rows[1] else []
        inputs = [
            b.dma.fetch(
                self.source[image, first + c0 : first + c1, planes[0] : planes[1], rows[0] : rows[1]],
                self.dtype,
            )
            for c0, c1 in parts
        ]
        for m0, m1 in blocks(self.channels.outputs, NUM_PARTITIONS):
            with b.tiles.scope():
                weights = [
                    b.dma.fetch(self.weights[first + c0 : first + c1, m0:m1], self.dtype) for c0, c1 in parts
                ]
                tile = b.tiles.sbuf(m1 - m0, box.shape, self.out.dtype)
                base = group * self.channels.outputs
                channels = (base + m0, base + m1)
                for part in bank_boxes(box):
                    with b.tiles.scope():
                        bank = b.tiles.psum(m1 - m0, part.shape[1:])
                        b.isa.memset(bank, 0.0)
                        self._accumulate(
                            bank, part, (planes[0], rows[0]), list(zip(inputs, weights, strict=True))
                        )
                        self._finish(tile, bank, (box, part), image, channels)
                b.dma.store(self._part(self.out, image, channels, box), tile)

    def _finish(self, tile: View, bank: View, boxes: tuple[Box, Box], image: int, channels: Range) -> None:
        whole, part = boxes
        (d0, d1), (r0, r1), (w0, w1) = part.planes, part.rows, part.columns
        d, r = whole.planes[0], whole.rows[0]
        column = None
        if self.bias is not None:
            column = self.b.dma.fetch(self.bias[channels[0] : channels[1]], "float32")

        def region(view: HbmView) -> HbmView:
            return self._part(view.reshape(*self.shape), image, channels, part)

        target = tile[:, d0 - d : d1 - d, r0 - r : r1 - r, w0:w1]
        self.epilogue.apply(target, bank.reshape(*part.shape), region, column)

    def _accumulate(
        self, bank: View, box: Box, origin: tuple[int, int], operands: list[tuple[View, View]]
    ) -> None:
        depth, height, width = self.axes
        for plane in range(depth.kernel):
            planes, _ = depth.span(plane, *box.planes)
            for row in range(height.kernel):
                rows, first_row = height.span(row, *box.rows)
                for column in range(width.kernel):
                    columns, first_column = width.span(column, *box.columns)
                    if not (planes.count and rows.count and columns.count):
                        continue
                    tap = (plane * height.kernel + row) * width.kernel + column
                    target = bank[
                        :,
                        step_slice(first_row - box.rows[0], rows.count, height.stride),
                        step_slice(first_column - box.columns[0], columns.count, width.stride),
                    ]
                    for source, weights in operands:
                        moving = source[
                            :,
                            planes.first - origin[0],
                            rows.first - origin[1] : rows.end - origin[1],
                            columns.first : columns.end,
                        ]
                        self.b.isa.matmul(target, weights[:, :, tap], moving, accumulate=True)

    def _part(self, view: HbmView, image: int, channels: Range, box: Box) -> HbmView:
        (d0, d1), (r0, r1), (w0, w1) = box.planes, box.rows, box.columns
        return view[image, channels[0] : channels[1], d0:d1, r0:r1, w0:w1]


LOWERINGS = {"ConvTranspose": lower_conv_transpose}
EPILOGUES = {"ConvTranspose": conv_transpose_group}
