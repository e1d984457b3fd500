"""Lower moves between channels and positions whose parts of channels do not fill atoms: DepthToSpace,
SpaceToDepth, and chains of views and Transposes that do the same or put channels in another order.

CORE brings channels to an order in which those of one place begin with an atom; the DPU then writes the
positions of every place apart, or together. Both ends are cubes, and each channel of the result comes from
one channel, at one place in every square of positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.moving import Span, Window, move, select
from npuviz.targets.rk3588.compiler.operators.conv import Operands
from npuviz.targets.rk3588.compiler.operators.large_windows import convolve_anyhow
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

Square = tuple[int, int]
"""Rows and columns of places that change for channels."""


@dataclass(frozen=True)
class _Regrouping:
    """A move as channels and places: `apart` writes positions apart (DepthToSpace), else together.

    channels  (places, channels of one): the channel of the smaller picture's cube that the result has there,
              or, together, its own channel that comes from a place: (places, channels of the source)
    """

    square: Square
    apart: bool
    channels: np.ndarray


def lower_regrouped(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a move between channels and positions. Raises CannotLower if it is none."""
    ends = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    if any(len(end.shape) < 3 for end in ends) or layer.activation is not None:
        raise CannotLower("a move between rows")
    found = _regrouping(_numbers(b.graph, layer), *(cube_shape(end.shape) for end in ends))
    if found is None:
        raise CannotLower("channels and positions that change places in no square")
    if found.square == (1, 1):
        _select(b, layer, ends, found.channels[0])
    elif found.apart:
        _write_apart(b, layer, ends, found)
    else:
        _write_together(b, layer, ends, found)


def is_written_apart(graph: Graph, layer: Layer) -> bool:
    """Return whether a convolution's layer ends with a DepthToSpace."""
    return graph.nodes[layer.nodes[-1]].op_type == "DepthToSpace" and len(layer.nodes) > 1


def convolve_apart(b: Builder, layer: Layer, shape: Shape, operands: Operands) -> None:
    """Lower a convolution before a DepthToSpace: its kernels come in the order of places, and need no product
    that brings them there."""
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    small = cube_shape(source.shape)[0], len(operands.weights), shape.rows.out, shape.columns.out
    node = b.graph.nodes[layer.nodes[-1]]
    numbers = _to_space(np.arange(prod(small)).reshape(small), node)
    found = _regrouping(numbers, small, cube_shape(target.shape))
    assert found is not None
    beside, order = _beside(b, layer, target, found, small[2:])
    weights = np.zeros((len(order), *operands.weights.shape[1:]), operands.weights.dtype)
    bias = np.zeros(len(order), operands.bias.dtype)
    weights[order >= 0], bias[order >= 0] = (
        operands.weights[order[order >= 0]],
        operands.bias[order[order >= 0]],
    )
    own = replace(operands, weights=weights, bias=bias)
    convolve_anyhow(b, layer, shape, own, (source, beside))
    _spread(b, layer, (beside, target), found)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    "DepthToSpace": lower_regrouped,
    "SpaceToDepth": lower_regrouped,
}


# --- what changes places ----------------------------------------------------------------------------------


def _numbers(graph: Graph, layer: Layer) -> np.ndarray:
    """Return for each element of the result the number of the source's element."""
    shape = graph.tensors[layer.inputs[0].tensor].shape
    numbers = np.arange(prod(shape)).reshape(shape)
    for index in layer.nodes:
        node = graph.nodes[index]
        if node.op_type in _MOVED:
            numbers = _MOVED[node.op_type](numbers, node)
        else:
            numbers = numbers.reshape(graph.tensors[node.outputs[0]].shape)
    return numbers


def _transposed(numbers: np.ndarray, node: Node) -> np.ndarray:
    order = attributes_of(node).integers("perm", list(range(numbers.ndim))[::-1])
    return numbers.transpose(order)


def _to_space(numbers: np.ndarray, node: Node) -> np.ndarray:
    attributes = attributes_of(node)
    images, channels, height, width = numbers.shape
    size = attributes.integer("blocksize")
    if attributes.text("mode") == "CRD":
        parts = numbers.reshape(images, -1, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = numbers.reshape(images, size, size, -1, height, width).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(images, channels // size**2, height * size, width * size)


def _to_depth(numbers: np.ndarray, node: Node) -> np.ndarray:
    images, channels, height, width = numbers.shape
    size = attributes_of(node).integer("blocksize")
    parts = numbers.reshape(images, channels, height // size, size, width // size, size)
    return parts.transpose(0, 3, 5, 1, 2, 4).reshape(images, -1, height // size, width // size)


_MOVED: Mapping[str, Callable[[np.ndarray, Node], np.ndarray]] = {
    "Transpose": _transposed, "DepthToSpace": _to_space, "SpaceToDepth": _to_depth,
}  # fmt: skip


def _regrouping(
    numbers: np.ndarray, source: tuple[int, int, int, int], target: tuple[int, int, int, int]
) -> _Regrouping | None:
    """Return a move as channels and places, None if it cannot be written so.

    numbers  of the source's elements, in the order of the result;  source, target  shapes of both cubes
    """
    apart = target[2] >= source[2] and target[3] >= source[3]
    small, large = (source, target) if apart else (target, source)
    if source[0] != target[0] or any(large[axis] % max(1, small[axis]) for axis in (2, 3)):
        return None
    square = large[2] // small[2], large[3] // small[3]
    if not apart:
        # A move together is one apart seen from its end.
        places = np.empty(numbers.size, np.int64)
        places[numbers.reshape(-1)] = np.arange(numbers.size)
        numbers = places
    made = numbers.reshape(large)
    base = np.arange(prod(small)).reshape(small)
    plane = small[2] * small[3]
    channels = np.empty((square[0] * square[1], large[1]), np.int64)
    for number, (row, column) in enumerate(product(*map(range, square))):
        part = made[:, :, row :: square[0], column :: square[1]]
        channels[number] = part[0, :, 0, 0] // plane
        if channels[number].max(initial=0) >= small[1] or not np.array_equal(base[:, channels[number]], part):
            return None
    return _Regrouping(square, apart, channels)


# --- tasks ------------------------------------------------------------------------------------------------


def _select(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], channels: np.ndarray) -> None:
    """Emit the product that brings channels of one scale to those of another cube."""
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    select(b, layer, ends, [int(channel) for channel in channels], ([taken] * len(channels), out))


def _write_apart(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], found: _Regrouping) -> None:
    """Bring the channels of each place to atoms of their own, and write every place to its positions."""
    source, target = ends
    beside, order = _beside(b, layer, target, found, cube_shape(source.shape)[2:])
    _select(b, layer, (source, beside), order)
    _spread(b, layer, (beside, target), found)


def _beside(
    b: Builder, layer: Layer, target: Buffer, found: _Regrouping, plane: tuple[int, int]
) -> tuple[Buffer, np.ndarray]:
    """Return a cube for the channels of all places, and which channels it holds, -1 for filling."""
    images, kept, _, _ = cube_shape(target.shape)
    each = aligned(kept, packing(target.dtype).channels)
    places = len(found.channels)
    order = np.full((places, each), -1)
    order[:, :kept] = found.channels
    shape = (images, places * each, *plane)
    beside = b.scratch(_name(layer, "beside"), shape, target.dtype)
    return beside, order.reshape(-1)[: (places - 1) * each + kept]


def _spread(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], found: _Regrouping) -> None:
    """Write the places beside each other to their positions."""
    (beside, target), places = ends, len(found.channels)
    images, kept, _, _ = cube_shape(target.shape)
    _, channels, height, width = cube_shape(beside.shape)
    b.begin_layer()
    for number in range(places):
        near, far = _windows(found.square, number, (images, kept, height, width), channels // places)
        move(b, layer, (beside, target), (near, far), Stages())


def _write_together(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], found: _Regrouping) -> None:
    """Write the positions of every place beside each other, in atoms of their own, and bring the channels to
    their order."""
    source, target = ends
    images, kept, _, _ = cube_shape(source.shape)
    each = aligned(kept, packing(source.dtype).channels)
    places = len(found.channels)
    height, width = cube_shape(target.shape)[2:]
    beside = b.scratch(_name(layer, "beside"), (images, places * each, height, width), source.dtype)
    for number in range(places):
        near, far = _windows(found.square, number, (images, kept, height, width), each)
        move(b, layer, (source, beside), (far, near), Stages())
    b.begin_layer()
    order = np.empty(places * kept, np.int64)
    order[found.channels] = np.arange(places)[:, None] * each + np.arange(kept)
    _select(b, layer, (beside, target), order)


def _windows(
    square: Square, number: int, counts: tuple[int, int, int, int], each: int
) -> tuple[Window, Window]:
    """Return the windows of one place: in the cube of all places beside each other, and where they are
    apart."""
    images, channels, height, width = counts
    row, column = divmod(number, square[1])
    near = Window(Span(0, images), Span(number * each, channels), Span(0, height), Span(0, width))
    far = Window(
        Span(0, images), Span(0, channels), Span(row, height, square[0]), Span(column, width, square[1])
    )
    return near, far


def _name(layer: Layer, part: str) -> str:
    return f"{layer.head.name or layer.head.op_type} {part}"
