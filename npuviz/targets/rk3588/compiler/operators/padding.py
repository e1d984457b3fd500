"""Lower Pad: move the elements into a cube whose zeros no task writes, or repeat them at its edges."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.line_padding import lower_line_pad, padded_numbers
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
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.compiler.rescaling import rescaling
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

Ends = tuple[Buffer, Buffer]


def lower_pad(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Pad with zeros or with elements of the tensor; negative padding cuts off."""
    node, graph = layer.head, b.graph
    mode = attributes_of(node).text("mode", "constant")
    scales = layer.inputs[0].quantisation, layer.output.quantisation
    if b.home(layer.output.tensor).layout == "rows":
        lower_line_pad(b, layer, mode, _value(graph, node) if mode == "constant" else 0.0)
        return
    if mode != "constant":
        _repeat_edges(b, layer, mode)
        return
    _refuse_value(graph, node, scales[1])
    shapes = graph.tensors[layer.inputs[0].tensor].shape, graph.tensors[node.outputs[0]].shape
    spans = _spans(graph, node, shapes[0])
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    b.clear_home(layer.output.tensor)
    stages = rescaling(*scales) or Stages()
    if all(is_rows(shape, cube) for shape, cube in zip(shapes, (source, target), strict=True)):
        _pad_rows(b, layer, (source, target), (shapes, spans), stages)
        return
    windows = _window(shapes[0], source, spans[0]), _window(shapes[1], target, spans[1])
    taken, given = windows
    if not _keeps_atoms(source, target, (taken.channels, given.channels)):
        if stages != Stages():
            raise CannotLower("channels that are padded within atoms, and another scale")
        source, taken = _with_channels(b, layer, source, target, windows)
    move(b, layer, (source, target), (taken, replace(given, channels=_like(given, taken))), stages)


def _like(given: Window, taken: Window) -> Span:
    """Return where channels go: the given ones, or all if there are as many already as the result has."""
    return given.channels if given.channels.count == taken.channels.count else Span(0, taken.channels.count)


def _refuse_value(graph: Graph, node: Node, scaled: Quantisation | None) -> None:
    """Raise CannotLower unless the fill value is stored as zero."""
    value = _value(graph, node)
    # Before a maximum the value is often minus infinity, which no integer can be.
    stored = value if scaled is None else np.rint(value / scaled.scale) + scaled.zero_point
    if stored != 0:
        raise CannotLower("a value that is not stored as zero", f"{stored:g}", "zeros")


def _value(graph: Graph, node: Node) -> float:
    value = float(node.attributes.get("value", 0.0))
    if len(node.inputs) > 2 and node.inputs[2] >= 0:
        known = graph.constants.get(node.inputs[2])
        if known is None:
            raise CannotLower("a value that is no constant", change="a constant value")
        value = float(np.reshape(known, -1)[0]) if np.size(known) else 0.0
    return value


def _spans(graph: Graph, node: Node, shape: tuple[int, ...]) -> tuple[dict[int, Span], dict[int, Span]]:
    """Return for each axis that changes which part is taken and where it goes."""
    pads = node.attributes.get("pads", node.attributes.get("paddings"))
    if len(node.inputs) > 1:
        values = graph.constants.get(node.inputs[1])
        if values is None:
            raise CannotLower("pads that are no constants", change="constant pads")
        pads = np.reshape(values, -1).astype(np.int64).tolist()
    axes = list(range(len(shape)))
    if len(node.inputs) > 3 and node.inputs[3] >= 0:
        values = graph.constants.get(node.inputs[3])
        if values is None:
            raise CannotLower("axes that are no constants", change="constant axes")
        axes = [int(axis) % len(shape) for axis in np.reshape(values, -1)]
    taken, given = {}, {}
    for place, axis in enumerate(axes):
        before, after = int(pads[place]), int(pads[place + len(axes)])
        count = shape[axis] + min(0, before) + min(0, after)
        if before or after:
            taken[axis], given[axis] = Span(max(0, -before), count), Span(max(0, before), count)
    if any(span.count < 1 for span in taken.values()):
        raise CannotLower("nothing is left of an axis")
    return taken, given


def _window(shape: tuple[int, ...], cube: Buffer, spans: Mapping[int, Span]) -> Window:
    """Return the window of a part of a tensor in its cube."""
    found = whole(cube)
    for axis, place in enumerate(cube_axes(shape, cube)):
        if axis in spans:
            found = replace(found, **{AXES[place]: spans[axis]})
    return found


def _keeps_atoms(source: Buffer, target: Buffer, channels: tuple[Span, Span]) -> bool:
    """Return whether channels are whole atoms at both ends, and the filling of an atom lands beside no
    others."""
    taken, given = channels
    size = cube_shape(target.shape)[1] if len(target.shape) != 2 else target.shape[1]
    return is_by_atoms(source, taken, taken.first + taken.count) and is_by_atoms(target, given, size)


def _with_channels(
    b: Builder, layer: Layer, source: Buffer, target: Buffer, windows: tuple[Window, Window]
) -> tuple[Buffer, Window]:
    """Return the source with the channels of the result, made by CORE, and the window taken of it."""
    taken, given = windows
    chosen = _chosen(cube_shape(target.shape)[1], (taken.channels, given.channels))
    images, _, rows, columns = cube_shape(source.shape)
    name = f"{layer.head.name or layer.head.op_type} channels"
    wide = b.scratch(name, (images, len(chosen), rows, columns), source.dtype)
    select(b, layer, (source, wide), chosen)
    b.begin_layer()
    return wide, replace(taken, channels=Span(0, len(chosen)))


def _chosen(size: int, channels: tuple[Span, Span]) -> list[int]:
    """Return for each channel of the result its number in the source, -1 for zeros."""
    taken, given = channels
    found = [-1] * size
    found[given.first : given.first + given.count] = range(taken.first, taken.first + taken.count)
    return found


def _pad_rows(
    b: Builder,
    layer: Layer,
    ends: Ends,
    parts: tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[dict[int, Span], dict[int, Span]]],
    stages: Stages,
) -> None:
    """Pad tensors that lie as rows of their last axis. parts  shapes, and spans of their axes"""
    source, target = ends
    shapes, spans = parts
    taken, given = (row_numbers(shape, span) for shape, span in zip(shapes, spans, strict=True))
    last = len(shapes[0]) - 1
    channels = tuple(span.get(last, Span(0, shape[last])) for shape, span in zip(shapes, spans, strict=True))
    if not _keeps_atoms(source, target, (channels[0], channels[1])):
        chosen = _chosen(shapes[1][last], (channels[0], channels[1]))
        wide = b.scratch(f"{layer.head.name or layer.head.op_type} channels", (source.shape[0], len(chosen)),
                         source.dtype)  # fmt: skip
        select(b, layer, (source, wide), chosen)
        b.begin_layer()
        source, channels = wide, (Span(0, len(chosen)), Span(0, len(chosen)))
    move_rows(b, layer, (source, target), (taken, given), (channels[0], channels[1]), stages)


def _repeat_edges(b: Builder, layer: Layer, mode: str) -> None:
    """Lower Pad with elements of the tensor, in any mode for which `padded_numbers` finds their numbers."""
    node, graph = layer.head, b.graph
    shapes = graph.tensors[layer.inputs[0].tensor].shape, graph.tensors[node.outputs[0]].shape
    taken, given = _spans(graph, node, shapes[0])
    if any(span.first or span.count < shapes[0][axis] for axis, span in taken.items()):
        raise CannotLower(f"mode {mode} and padding that cuts off")
    numbers = {
        axis: padded_numbers(
            mode, span.count, (given[axis].first, shapes[1][axis] - given[axis].first - span.count)
        )
        for axis, span in taken.items()
    }
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    stages = rescaling(layer.inputs[0].quantisation, layer.output.quantisation) or Stages()
    are_rows = all(is_rows(shape, cube) for shape, cube in zip(shapes, (source, target), strict=True))
    places = (*[2] * (len(shapes[0]) - 1), 1) if are_rows else cube_axes(shapes[0], source)
    channels = numbers.pop(places.index(1), None)
    if channels is not None:
        if stages != Stages():
            raise CannotLower("channels that are repeated, and another scale")
        images, _, *plane = cube_shape(source.shape)
        wide = target if not numbers else b.scratch(
            f"{node.name or node.op_type} channels",
            (source.shape[0], len(channels)) if are_rows else (images, len(channels), *plane), source.dtype,
        )  # fmt: skip
        select(b, layer, (source, wide), channels.tolist())
        b.begin_layer()
        source = wide
    if are_rows and numbers:
        _repeat_rows(b, layer, (source, target), (*shapes[0][:-1], shapes[1][-1]), numbers, stages)
    elif channels is None or numbers:
        _repeat_planes(
            b, layer, (source, target), {places[axis]: each for axis, each in numbers.items()}, stages
        )


def _repeat_rows(
    b: Builder, layer: Layer, ends: Ends, shape: tuple[int, ...], numbers: Mapping[int, np.ndarray],
    stages: Stages,
) -> None:  # fmt: skip
    """Write rows of the last axis again where the numbers of the other axes say so."""
    taken = row_numbers(shape, {}).reshape(shape[:-1])
    for axis, found in numbers.items():
        taken = np.take(taken, found, axis)
    taken = taken.reshape(-1)
    every = Span(0, shape[-1])
    move_rows(b, layer, ends, (taken, np.arange(len(taken))), (every, every), stages)


def _repeat_planes(
    b: Builder, layer: Layer, ends: Ends, axes: Mapping[int, np.ndarray], stages: Stages
) -> None:
    """Write columns, then whole rows of what they make. axes  of the cube -> number of each element"""
    source, target = ends
    if axes.keys() - {2, 3}:
        raise CannotLower("images that are repeated", change="padding of other axes")
    height, width = cube_shape(source.shape)[2:]
    rows = axes.get(2, np.arange(height))
    columns = axes.get(3, np.arange(width))
    middle = int(np.flatnonzero(rows[: len(rows) - height + 1] == 0)[0])
    while not np.array_equal(rows[middle : middle + height], np.arange(height)):
        middle += 1
    every = whole(source)
    for taken, given in _forward_runs(columns):
        windows = (
            replace(every, columns=taken),
            replace(every, rows=Span(middle, height), columns=given),
        )
        move(b, layer, ends, windows, stages)
    b.begin_layer()
    every = whole(target)
    for taken, given in _forward_runs(rows):
        if given.first <= middle < given.first + given.count:
            continue
        windows = (
            replace(every, rows=replace(taken, first=taken.first + middle)),
            replace(every, rows=given),
        )
        move(b, layer, (target, target), windows, Stages())


def _forward_runs(numbers: np.ndarray) -> list[tuple[Span, Span]]:
    """Return runs of neighbouring numbers, and the places where they stand."""
    edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    return [(Span(int(numbers[low]), high - low), Span(low, high - low)) for low, high in pairwise(edges)]


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {"Pad": lower_pad}
