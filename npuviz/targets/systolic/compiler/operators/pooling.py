"""Pooling: a window is loaded once, and the vector unit reduces its positions one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler import windows
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.conv_writer import spans
from npuviz.targets.systolic.compiler.template import Template
from npuviz.targets.systolic.compiler.tiling.matrix import sizes_to_try
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.window import WindowView

WINDOW, OUT = 0, 1


@dataclass(frozen=True)
class PoolRule:
    """How the positions of a window are reduced.

    fill    what padding counts as
    first, following  opcode and function (running value, position's value) of the steps
    """

    name: str
    fill: float
    opcode: int
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray]


_MAX = PoolRule("max", float("-inf"), tk.OP_COMP, np.maximum)
_SUM = PoolRule("sum", 0.0, tk.OP_ADD, np.add)


def lower_max_pool(lowering: Lowering, node: Node) -> None:
    """Lower MaxPool without indices."""
    if any(index >= 0 for index in node.outputs[1:]):
        raise CannotLower("indices of the maxima are asked for", change="drop the output Indices")
    _lower_pool(lowering, node, _MAX)


def lower_average_pool(lowering: Lowering, node: Node) -> None:
    """Lower AveragePool; where padding does not count, every output has a separate divisor."""
    _lower_pool(lowering, node, _SUM)


def lower_global_pool(lowering: Lowering, node: Node) -> None:
    """Lower GlobalAveragePool and GlobalMaxPool as a pooling whose window is the image."""
    rule = _SUM if node.op_type == "GlobalAveragePool" else _MAX
    image = lowering.tensor(node.inputs[0]).shape[2:]
    if not image:
        raise CannotLower("it pools no dimension", change="leave it out")
    _lower_pool(lowering, node, rule, image)


def _lower_pool(lowering: Lowering, node: Node, rule: PoolRule, window: Sequence[int] = ()) -> None:
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source, output))
    kernel = list(window) or attributes_of(node).integers("kernel_shape")
    image, result = lowering.tensor(source).shape, lowering.tensor(output).shape
    height, width = windows.image_axes(node, image, result, kernel)
    tiling = _choose(
        lowering.resources, height, width, image[0], image[1], lowering.storage(source).item_bytes
    )
    if tiling is None:
        raise CannotLower("not even one window fits half of the scratchpad")
    writer = _Writer(lowering, node, rule, (height, width), tiling)
    lowering.builder.begin_layer(node.name or node.op_type, node.id)
    writer.write()
    lowering.builder.end_layer()
    lowering.add_layer(node, (source,), (output,))


def _choose(
    resources: Resources, height: WindowAxis, width: WindowAxis, batch: int, channels: int, item: int
) -> tuple[int, int, int] | None:
    """Choose rows, columns and channels of a tile that fits, with even load of the cores."""
    best: tuple[float, tuple[int, int, int]] | None = None
    parts = (1, 2, 4, 8, 16, 32, 64, 128, resources.num_cores, 2 * resources.num_cores)
    for rows in sorted({ceil_div(height.out, count) for count in parts}):
        for columns in {width.out} if rows > 1 else {ceil_div(width.out, count) for count in parts}:
            for depth in sizes_to_try(channels, min(channels, resources.array_columns), resources.num_cores):
                window = height.reach(rows) * width.reach(columns) * depth * item
                pixels = rows * columns * depth * ACC_BYTES
                if window > resources.spad_half or pixels > resources.acc_half:
                    continue
                tiles = batch * ceil_div(height.out, rows) * ceil_div(width.out, columns)
                tiles *= ceil_div(channels, depth)
                rounds = ceil_div(tiles, resources.num_cores)
                steps = height.kernel * width.kernel * ceil_div(pixels, resources.vector_bytes)
                memory = max(
                    tiles * window / resources.bytes_per_cycle,
                    rounds * window / resources.core_bytes_per_cycle,
                )
                cost = max(rounds * steps, memory) + window / resources.core_bytes_per_cycle + 32 * rounds
                if best is None or cost < best[0]:
                    best = cost, (rows, columns, depth)
    return None if best is None else best[1]


@dataclass(frozen=True, slots=True)
class _Part:
    row: windows.Cut
    column: windows.Cut
    channels: int

    @property
    def elements(self) -> int:
        """Output elements of the tile."""
        return self.row.count * self.column.count * self.channels


class _Writer:
    def __init__(
        self,
        lowering: Lowering,
        node: Node,
        rule: PoolRule,
        axes: tuple[WindowAxis, WindowAxis],
        tiling: tuple[int, int, int],
    ) -> None:
        self.lowering = lowering
        self.node = node
        self.rule = rule
        self.axes = axes
        self.tiling = tiling
        self.source = lowering.storage(node.inputs[0])
        self.output = lowering.storage(node.outputs[0])
        self.in_strides = windows.spatial_strides(lowering, node.inputs[0])
        self.out_strides = windows.spatial_strides(lowering, node.outputs[0])
        lowering.builder.require_tiles(
            ceil_div(axes[0].out, tiling[0]) * ceil_div(axes[1].out, tiling[1]), node.name
        )
        self.rows, self.columns = windows.cut_axis(axes[0], tiling[0]), windows.cut_axis(axes[1], tiling[1])
        self.channels = spans(self.source.shape[1], tiling[2])
        whole = _Part(self.rows.kinds[0], self.columns.kinds[0], tiling[2])
        self._box(whole, WINDOW)
        self._box(whole, OUT)

    def write(self) -> None:
        """Add all tiles of the layer."""
        builder, resources = self.lowering.builder, self.lowering.resources
        spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
        acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)
        rows, columns, depth = self.rows, self.columns, self.tiling[2]
        self.window = spad.entry("window", rows.longest * columns.longest * depth * self.source.item_bytes)
        self.out = acc.entry("out", rows.most * columns.most * depth * ACC_BYTES)
        sizes = (self.source.shape[0], len(rows), len(columns), len(self.channels))
        batch, row, column, channel = windows.tile_indices(builder, *sizes)
        depths = np.array([length for _, length in self.channels])[channel]
        keys = np.stack([rows.kind[row], columns.kind[column], depths])
        distinct, which = windows.distinct_columns(keys)
        ids = [
            builder.template((r, c, d), partial(self._template, _Part(rows.kinds[r], columns.kinds[c], d)))
            for r, c, d in distinct.T.tolist()
        ]
        starts = np.array([start for start, _ in self.channels])[channel]
        bases = np.zeros((len(batch), 2), dtype=np.int64)
        for base, storage, strides in (
            (WINDOW, self.source, self.in_strides),
            (OUT, self.output, self.out_strides),
        ):
            n, c, h, w = strides
            top = (rows.first if base == WINDOW else rows.start)[row]
            left = (columns.first if base == WINDOW else columns.start)[column]
            bases[:, base] = storage.address + batch * n + starts * c + top * h + left * w
        builder.add_tiles(
            np.array(ids)[which],
            bases,
            cores=np.arange(len(batch)) % resources.num_cores,
            coords=np.stack([batch, row, column, channel], axis=1),
        )

    def _box(self, part: _Part, base: int):
        _, c, h, w = self.in_strides if base == WINDOW else self.out_strides
        rows, columns = (
            (part.row.length, part.column.length) if base == WINDOW else (part.row.count, part.column.count)
        )
        item = self.source.item_bytes if base == WINDOW else self.output.item_bytes
        return windows.box_rows(base, item, ((rows, h), (columns, w), (part.channels, c)))

    def _template(self, part: _Part, template: Template) -> None:
        lowering, height, width = self.lowering, self.axes[0], self.axes[1]
        rows, order = self._box(part, WINDOW)
        counts = (part.row.length, part.column.length, part.channels)
        aux = lowering.shape(tuple(counts[axis] for axis in order))
        size = counts[0] * counts[1] * counts[2] * self.source.item_bytes
        template.movin(self.window, rows, size=size, tensor=self.source.root, aux=aux)
        view = WindowView(
            word=self.window,
            axes=order,
            span=(height.reach(part.row.count), width.reach(part.column.count)),
            before=(part.row.before, part.column.before),
            kernel=(height.kernel, width.kernel),
            stride=(height.stride, width.stride),
            dilation=(height.dilation, width.dilation),
            out=(part.row.count, part.column.count),
        )
        self._reduce(template, part, view)
        rows, order = self._box(part, OUT)
        aux = lowering.order((part.row.count, part.column.count, part.channels), order)
        template.movout(self.out, rows, tensor=self.output.root, aux=aux)

    def _reduce(self, template: Template, part: _Part, view: WindowView) -> None:
        rule, lowering = self.rule, self.lowering
        size = part.elements * ACC_BYTES

        def emit(opcode: int, sources: tuple[int, int], aux: int) -> None:
            template.vector(
                opcode,
                sources,
                self.out,
                vbytes=size,
                tile_m=1,
                size=size,
                tensor=self.output.root,
                aux=aux,
            )

        positions = [(s, r) for s in range(view.kernel[0]) for r in range(view.kernel[1])]
        for p, (s, r) in enumerate(positions):
            key = (rule.name, view, s, r, p == 0)
            if p == 0:
                aux = lowering.function(key, partial(_first, rule.fill, view, s, r))
                emit(rule.opcode, (self.window, 0), aux)
            else:
                aux = lowering.function(key, partial(_next, rule.combine, rule.fill, view, s, r))
                emit(rule.opcode, (self.out, self.window), aux)
        if rule.name == "sum":
            divisors = self._divisors(part)
            key = ("divide", divisors.tobytes(), divisors.shape)
            emit(tk.OP_MUL, (self.out, 0), lowering.function(key, partial(_divide, divisors)))

    def _divisors(self, part: _Part) -> np.ndarray:
        """Return the number of positions that each output pixel averages: (rows, columns, 1)."""
        padded = bool(self.node.attributes.get("count_include_pad"))
        rows, columns = (
            axis.counts(padded, cut.start, cut.start + cut.count)
            for axis, cut in zip(self.axes, (part.row, part.column), strict=True)
        )
        return np.maximum(1, rows[:, None, None] * columns[None, :, None]).astype(np.float32)


def _first(
    fill: float, view: WindowView, row: int, column: int, window: np.ndarray, _: np.ndarray
) -> np.ndarray:
    return view.tap(view.padded(window, fill), row, column)


def _next(
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    fill: float,
    view: WindowView,
    row: int,
    column: int,
    running: np.ndarray,
    window: np.ndarray,
) -> np.ndarray:
    return combine(running, view.tap(view.padded(window, fill), row, column))


def _divide(divisors: np.ndarray, total: np.ndarray, _: np.ndarray) -> np.ndarray:
    return total / divisors


LOWERINGS = {"MaxPool": lower_max_pool, "AveragePool": lower_average_pool}
