"""Lower operators that only move cubes: changes of shape that leave bytes in place, joining, cutting,
repeating."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.resizing import repeats_evenly
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit
from npuviz.targets.rk3588.compiler.exchange import emit_copy, plan_copy
from npuviz.targets.rk3588.compiler.layers import Layer, Planner, Stored
from npuviz.targets.rk3588.compiler.moves.mixing import mix
from npuviz.targets.rk3588.compiler.moves.row_parts import is_rows, move_rows, row_numbers
from npuviz.targets.rk3588.compiler.moving import (
    AXES,
    Span,
    Window,
    cube_axes,
    is_by_atoms,
    move,
    select,
    whole,
)
from npuviz.targets.rk3588.compiler.operator_kinds import VIEWS
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.compiler.rescaling import rescaling
from npuviz.targets.rk3588.compiler.strides import Axis, axes_of, joined_axes, split_axes
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

_FIRST_PLACE = {"asymmetric": 0.0, "half_pixel": 0.5, "pytorch_half_pixel": 0.5}
"""Where positions lie in their squares, by the mode of coordinates."""
NEAREST = "Resize with mode nearest, asymmetric, floor, and whole factors"


def lower_view(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a change of shape: a copy."""
    lines = [b.home(stored.tensor) for stored in (layer.inputs[0], layer.output)]
    if [buffer.layout for buffer in lines] == ["rows", "rows"] and lines[0].shape == lines[1].shape:
        emit_copy(b, layer.head.id, plan_copy(b.spec, lines[0], lines[1]))
        return
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    stages = rescaling(layer.inputs[0].quantisation, layer.output.quantisation) or Stages()
    if not _lie_alike(source, target):
        _copy(b, layer, (source, target))
        return
    if cube_shape(source.shape) == cube_shape(target.shape):
        emit(b, layer, source, target, None, lambda _: stages)
        return
    # Images become rows of one image, or rows become images.
    images, _, height, width = cube_shape(source.shape)
    count = max(images, cube_shape(target.shape)[0])
    row = images * height * width // count
    ends = _flat(source), _flat(target)
    for number in range(count):
        windows = tuple(_positions(buffer, number * row, row) for buffer in (source, target))
        move(b, layer, ends, (windows[0], windows[1]), stages)


def lower_transpose(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Transpose: a copy that goes through the axes in the order of the result."""
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    _copy(b, layer, (source, target), _turned(source, *_as_one_turn(b.graph, layer)))


def lower_chain(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a chain of views and Transposes as one copy: each of them changes the order of all axes."""
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    _copy(b, layer, (source, target), _turned(source, *_as_one_turn(b.graph, layer)))


def _as_one_turn(graph: Graph, layer: Layer) -> tuple[list[int], list[int]]:
    """Return a chain of views and Transposes as one Transpose: the fewest sizes that the source has for
    it, and their order in the result. Axes that stay neighbours are one, whatever lies in between."""
    shape = graph.tensors[layer.inputs[0].tensor].shape
    axes = [Axis(size, prod(shape[place + 1 :])) for place, size in enumerate(shape)]
    for index in layer.nodes:
        node = graph.nodes[index]
        if node.op_type == "Transpose":
            shape = graph.tensors[node.inputs[0]].shape
            order = attributes_of(node).integers("perm", list(range(len(shape)))[::-1])
            parted = split_axes(axes, shape, 1)
            axes = [axis for number in order for axis in parted[number]]
    axes = joined_axes(axes, 1)
    places = sorted(range(len(axes)), key=lambda place: -axes[place].step)
    return [axes[place].size for place in places], [places.index(place) for place in range(len(axes))]


def _turned(source: Buffer, shape: Sequence[int], order: Sequence[int]) -> list[Axis]:
    """Return the axes of a cube in another order of the axes of its tensor."""
    parted = split_axes(axes_of(source), shape, packing(source.dtype).channels)
    return [axis for number in order for axis in parted[number]]


def lower_one_by_one(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a chain of views and Transposes with a copy for each."""
    for index in layer.nodes:
        node = b.graph.nodes[index]
        single = Layer(node, (index,), (Stored(node.inputs[0]),), Stored(node.outputs[0]))
        LOWERINGS[node.op_type](b, single, planner)
        b.begin_layer()


def _copy(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], axes: Sequence[Axis] | None = None) -> None:
    """Copy a tensor, and rescale it if the result has another scale."""
    source, target = ends
    rescales = rescaling(layer.inputs[0].quantisation, layer.output.quantisation)
    place = target
    if rescales is not None:
        place = b.scratch(f"{layer.head.name or layer.head.op_type} copied", target.shape, target.dtype)
    copy = plan_copy(b.spec, source, place, axes)
    emit_copy(b, layer.head.id, copy)
    if rescales is not None:
        b.begin_layer()
        emit(b, layer, place, target, None, lambda _: rescales)


def _lie_alike(source: Buffer, target: Buffer) -> bool:
    """Return whether the same channels follow each other position by position in both, so that atoms stay
    whole."""
    (kind, images, channels, positions), given = _order(source), _order(target)
    if (channels, images * positions) != (given[2], given[1] * given[3]):
        return False
    if channels == 1 or images * positions == 1:
        return True
    return kind == given[0] and (kind == "positions" or images == given[1])


def _order(buffer: Buffer) -> tuple[str, int, int, int]:
    """Return (whether the elements of an image advance by positions or by channels, images, channels,
    positions)."""
    images, channels, height, width = cube_shape(buffer.shape)
    is_row = len(buffer.shape) < 3 or height * width == 1
    return "positions" if is_row else "channels", images, channels, height * width


def _flat(buffer: Buffer) -> Buffer:
    """Return a cube with its positions in one row."""
    images, channels, height, width = cube_shape(buffer.shape)
    return replace(buffer, shape=(images, channels, 1, height * width))


def _positions(buffer: Buffer, first: int, count: int) -> Window:
    """Return the window of some positions of one image."""
    _, channels, height, width = cube_shape(buffer.shape)
    image, at = divmod(first, height * width)
    return Window(Span(image, 1), Span(0, channels), Span(0, 1), Span(at, count))


def lower_concat(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Concat: cubes one after the other; channels that do not fill whole atoms go through CORE."""
    node, target = layer.head, cube_of(b, layer, layer.output)
    shape = b.graph.tensors[node.outputs[0]].shape
    along = attributes_of(node).axis(len(shape))
    sources = [(cube_of(b, layer, stored), stored.quantisation) for stored in layer.inputs]
    if along < len(shape) - 1 and all(
        is_rows(shape, each) for each in (target, *(each for each, _ in sources))
    ):
        _join_rows(b, layer, sources, target, along)
        return
    axis = 1 if along == len(shape) - 1 and is_rows(shape, target) else cube_axes(shape, target)[along]
    sizes = [cube_shape(source.shape)[axis] for source, _ in sources]
    group = packing(target.dtype).channels
    if axis == 1 and any(size % group for size in sizes[:-1]):
        _join_channels(b, layer, sources, target)
        return
    first = 0
    for (source, scaled), size in zip(sources, sizes, strict=True):
        stages = rescaling(scaled, layer.output.quantisation) or Stages()
        given = replace(whole(source), **{AXES[axis]: Span(first, size)})
        move(b, layer, (source, target), (whole(source), given), stages)
        first += size


def _join_rows(
    b: Builder, layer: Layer, sources: list[tuple[Buffer, Quantisation | None]], target: Buffer, axis: int
) -> None:
    """Join tensors that lie as rows of their last axis along another axis."""
    shape = b.graph.tensors[layer.head.outputs[0]].shape
    channels = Span(0, shape[-1])
    first = 0
    for tensor, (source, scaled) in zip(layer.head.inputs, sources, strict=True):
        taken = b.graph.tensors[tensor].shape
        stages = rescaling(scaled, layer.output.quantisation) or Stages()
        given = row_numbers(shape, {axis: Span(first, taken[axis])})
        rows = row_numbers(taken, {}), given
        move_rows(b, layer, (source, target), rows, (channels, channels), stages)
        first += taken[axis]


def _join_channels(
    b: Builder, layer: Layer, sources: list[tuple[Buffer, Quantisation | None]], target: Buffer
) -> None:
    """Put all inputs side by side, each from a whole atom on; CORE then drops the channels that fill them
    up."""
    group = packing(target.dtype).channels
    images, _, height, width = cube_shape(target.shape)
    sizes = [cube_shape(source.shape)[1] for source, _ in sources]
    wide = sum(aligned(size, group) for size in sizes)
    beside = b.scratch(f"{layer.head.name} beside", (images, wide, height, width), target.dtype)
    first, chosen = 0, []
    for (source, _), size in zip(sources, sizes, strict=True):
        # Of 8 bits an even number is copied in pairs; nothing reads what is beside the last.
        count = aligned(size, 2) if target.dtype == "int8" else size
        windows = [replace(whole(source), channels=Span(low, count)) for low in (0, first)]
        move(b, layer, (source, beside), (windows[0], windows[1]), Stages())
        chosen += range(first, first + size)
        first += aligned(size, group)
    b.begin_layer()
    scales = [scaled for (_, scaled), size in zip(sources, sizes, strict=True) for _ in range(size)]
    select(b, layer, (beside, target), chosen, (scales, layer.output.quantisation))


def lower_slice(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Slice with constant limits and positive steps."""
    node = layer.head
    source = cube_of(b, layer, layer.inputs[0])
    shape = b.graph.tensors[layer.inputs[0].tensor].shape
    spans = dict(enumerate(_slice_spans(b.graph, node, shape)))
    _cut(b, layer, source, (layer.output, spans), shape)


def lower_split(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Split: each output is a slice."""
    node = layer.head
    source = cube_of(b, layer, layer.inputs[0])
    shape = b.graph.tensors[layer.inputs[0].tensor].shape
    axis = attributes_of(node).axis(len(shape))
    first = 0
    for tensor, stored in zip(node.outputs, (layer.output, *layer.others), strict=True):
        size = b.graph.tensors[tensor].shape[axis]
        _cut(b, layer, source, (stored, {axis: Span(first, size)}), shape)
        first += size


def lower_gather(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Gather of constant places at even distances: a slice."""
    node = layer.head
    values = b.graph.constants.get(node.inputs[1])
    if values is None:
        raise CannotLower("places that are no constants", change="constant places, or Slice")
    source = cube_of(b, layer, layer.inputs[0])
    shape = b.graph.tensors[layer.inputs[0].tensor].shape
    axis = attributes_of(node).axis(len(shape))
    places = np.reshape(values, -1).astype(np.int64) % max(1, shape[axis])
    step = int(places[1] - places[0]) if len(places) > 1 else 1
    if step < 1 or np.any(np.diff(places) != step):
        raise CannotLower("places that do not go forwards at even distances")
    _cut(b, layer, source, (layer.output, {axis: Span(int(places[0]), len(places), step)}), shape)


def _cut(
    b: Builder,
    layer: Layer,
    source: Buffer,
    result: tuple[Stored, Mapping[int, Span]],
    shape: tuple[int, ...],
) -> None:
    """Move a part of a tensor. result  where to, and the span of each axis of the tensor"""
    stored, spans = result
    target = cube_of(b, layer, stored)
    if is_rows(shape, source) and len(target.shape) == 2:
        _cut_rows(
            b, layer, (source, target), spans, shape, (layer.inputs[0].quantisation, stored.quantisation)
        )
        return
    taken = whole(source)
    for axis, place in enumerate(cube_axes(shape, source)):
        if axis in spans and shape[axis] > 1:
            taken = replace(taken, **{AXES[place]: spans[axis]})
    scales = layer.inputs[0].quantisation, stored.quantisation
    channels = taken.channels
    if taken.counts != cube_shape(target.shape):
        _cut_and_copy(b, layer, (source, target), taken, scales)
        return
    if is_by_atoms(source, channels, channels.first + channels.count):
        move(b, layer, (source, target), (taken, whole(target)), rescaling(*scales) or Stages())
        return
    numbers = [channels.first + channels.step * number for number in range(channels.count)]
    all_channels = replace(taken, channels=Span(0, cube_shape(source.shape)[1]))
    if all_channels != whole(source):
        part = b.scratch(f"{layer.head.name} part", all_channels.counts, source.dtype)
        move(b, layer, (source, part), (all_channels, whole(part)), Stages())
        b.begin_layer()
        source = part
    select(b, layer, (source, target), numbers, ([scales[0]] * len(numbers), scales[1]))


def _cut_and_copy(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    taken: Window,
    scales: tuple[Quantisation | None, Quantisation | None],
) -> None:
    """Move a part of a cube to one that lies in another way, as rows do where an axis is gone."""
    source, target = ends
    channels = taken.channels
    if not is_by_atoms(source, channels, channels.first + channels.count):
        raise CannotLower(f"channels {channels} of {source.shape} that are stored as {target.shape}")
    part = b.scratch(f"{layer.head.name} part", taken.counts, source.dtype)
    move(b, layer, (source, part), (taken, whole(part)), rescaling(*scales) or Stages())
    b.begin_layer()
    emit_copy(b, layer.head.id, plan_copy(b.spec, part, target))


def _cut_rows(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    spans: Mapping[int, Span],
    shape: tuple[int, ...],
    scales: tuple[Quantisation | None, Quantisation | None],
) -> None:
    """Move a part of a tensor that lies as rows of its last axis, to rows."""
    source, target = ends
    rows, last = row_numbers(shape, spans), len(shape) - 1
    channels = spans.get(last, Span(0, shape[last]))
    if target.shape != (len(rows), channels.count):
        raise CannotLower(f"a part of {shape} that is stored as {target.shape}")
    if is_by_atoms(source, channels, channels.first + channels.count):
        stages = rescaling(*scales) or Stages()
        move_rows(b, layer, ends, (rows, np.arange(len(rows))), (channels, Span(0, channels.count)), stages)
        return
    if len(rows) != source.shape[0]:
        every = Span(0, shape[last])
        part = b.scratch(f"{layer.head.name} part", (len(rows), shape[last]), source.dtype)
        move_rows(b, layer, (source, part), (rows, np.arange(len(rows))), (every, every), Stages())
        b.begin_layer()
        source = part
    numbers = [channels.first + channels.step * number for number in range(channels.count)]
    select(b, layer, (source, target), numbers, ([scales[0]] * len(numbers), scales[1]))


def _slice_spans(graph: Graph, node: Node, shape: tuple[int, ...]) -> list[Span]:
    """Return the span that a Slice takes of each axis. Raises CannotLower for run-time limits and steps
    back."""
    given: list[list[int]] = []
    for place, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")):
        if place < len(node.inputs) and node.inputs[place] >= 0:
            values = graph.constants.get(node.inputs[place])
            if values is None:
                raise CannotLower(f"{name} that are no constants", change=f"constant {name}")
            given.append(np.reshape(values, -1).astype(np.int64).tolist())
        else:
            given.append([int(value) for value in node.attributes.get(name, [])])
    starts, ends, axes, steps = given
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    found = [Span(0, size) for size in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:
            raise CannotLower(f"a step of {step}: the NPU reads forwards", str(step), "a positive step")
        taken = range(*slice(start, end, step).indices(shape[axis]))
        found[axis % len(shape)] = Span(taken.start, len(taken), step)
    return found


def lower_resize(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a Resize by whole factors: every position is written several times, or mixed with its
    neighbours."""
    node = layer.head
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    attributes = attributes_of(node)
    mode = attributes.text("mode")
    first = _FIRST_PLACE.get(attributes.text("coordinate_transformation_mode")) if mode == "linear" else None
    if mode != "nearest" and (first is None or layer.is_quantised or len(source.shape) != 4):
        raise CannotLower(f"mode {mode}: the NPU repeats positions, it does not mix them", mode, NEAREST)
    sizes, given = cube_shape(source.shape), cube_shape(target.shape)
    factors = [out // size for out, size in zip(given, sizes, strict=True)]
    if factors[:2] != [1, 1] or any(
        size * factor != out for size, factor, out in zip(sizes, factors, given, strict=True)
    ):
        raise CannotLower(
            f"a change of size from {sizes} to {given}: whole factors of rows and columns are possible"
        )
    if first is not None:
        mix(b, layer, (source, target), (factors[2], factors[3]), first)
        return
    for size, factor in zip(sizes[2:], factors[2:], strict=True):
        if factor > 1 and not repeats_evenly(attributes, node, size, factor):
            raise CannotLower("positions that are not repeated evenly", change=NEAREST)
    stages = rescaling(layer.inputs[0].quantisation, layer.output.quantisation) or Stages()
    if min(factors[2:]) > 1 and _in_two_is_faster(b, layer, (source, target), stages):
        _repeat_in_two(b, layer, (source, target), stages)
        return
    _repeat(b, layer, (source, target), stages)


def _in_two_is_faster(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], stages: Stages) -> bool:
    """Return whether repeating columns, then rows, takes less time than both at once."""
    taken: list[int] = []
    mark = b.mark()
    for repeat in (_repeat, _repeat_in_two):
        repeat(b, layer, ends, stages)
        taken.append(b.cycles_since(mark))
        b.roll_back(mark)
    return taken[1] < taken[0]


def _repeat(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], stages: Stages) -> None:
    """Write every position of a cube to all places that it has in a larger one, a task for each."""
    source, target = ends
    sizes, given = cube_shape(source.shape), cube_shape(target.shape)
    rows, columns = (given[axis] // sizes[axis] for axis in (2, 3))
    for row, column in product(range(rows), range(columns)):
        window = replace(
            whole(source), rows=Span(row, sizes[2], rows), columns=Span(column, sizes[3], columns)
        )
        move(b, layer, ends, (whole(source), window), stages)


def _repeat_in_two(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], stages: Stages) -> None:
    """Repeat the columns of a cube, then whole rows: as many tasks as both factors together, not as their
    product."""
    source, target = ends
    *sizes, _ = cube_shape(source.shape)
    shape = (*sizes, cube_shape(target.shape)[3])
    wide = b.scratch(f"{layer.head.name or layer.head.op_type} columns", shape, target.dtype)
    _repeat(b, layer, (source, wide), stages)
    b.begin_layer()
    _repeat(b, layer, (wide, target), Stages())


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(VIEWS, lower_view),
    "Concat": lower_concat,
    "Transpose": lower_transpose,
    "Slice": lower_slice,
    "Gather": lower_gather,
    "Split": lower_split,
    "Resize": lower_resize,
    "Upsample": lower_resize,
}
