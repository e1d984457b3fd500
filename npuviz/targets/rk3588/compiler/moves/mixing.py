"""Lower Resize in mode linear by whole factors: positions between others are depthwise convolutions.

For each place between two positions CORE mixes a position with its neighbours; the DPU writes the results
apart. Positions at the edge have themselves as neighbours, from a copy with repeated edges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.moving import Span, Window, move, whole
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

_TOLERANCE = 1e-4


def mix(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], factors: tuple[int, int], first: float
) -> None:
    """Emit a Resize in mode linear. Raises CannotLower unless it mixes positions so.

    factors  of rows and columns;  first  0.5 if positions are the middles of their squares, 0 if corners
    """
    source, target = ends
    shares = [_shares(factor, first) for factor in factors]
    _verify(b, layer, shares)
    images, channels, height, width = cube_shape(source.shape)
    wide = _with_edges(b, layer, source)
    axes = [WindowAxis(size + 2, size, 3) for size in (height, width)]
    shape = Shape(axes[0], axes[1], is_depthwise=True)
    parts: list[Buffer] = []
    for row, column in product(*map(range, factors)):
        kernel = np.outer(shares[0][row], shares[1][column]).astype(np.float16)
        weights = np.broadcast_to(kernel, (channels, 1, 3, 3)).copy()
        part = b.scratch(f"{_name(layer)} between", (images, channels, height, width), target.dtype)
        convolve_into(b, layer, shape, Operands(weights, np.zeros(channels, np.float32)), (wide, part))
        parts.append(part)
    b.begin_layer()
    for part, (row, column) in zip(parts, product(*map(range, factors)), strict=True):
        given = replace(
            whole(target), rows=Span(row, height, factors[0]), columns=Span(column, width, factors[1])
        )
        move(b, layer, (part, target), (whole(part), given), Stages())


def _shares(factor: int, first: float) -> np.ndarray:
    """Return the shares of a position and its neighbours in each place: (places, 3)."""
    found = np.zeros((factor, 3))
    for place in range(factor):
        at = (place + first) / factor - first
        low = int(np.floor(at))
        found[place, low + 1] = 1 - (at - low)
        if at > low:
            found[place, low + 2] = at - low
    return found


def _with_edges(b: Builder, layer: Layer, source: Buffer) -> Buffer:
    """Return a copy of a cube with the positions at its edges twice."""
    images, channels, height, width = cube_shape(source.shape)
    wide = b.scratch(f"{_name(layer)} edges", (images, channels, height + 2, width + 2), source.dtype)
    every = Span(0, images), Span(0, channels)
    inner = Span(1, height)
    for taken, given in (
        (Span(0, width), Span(1, width)),
        (Span(0, 1), Span(0, 1)),
        (Span(width - 1, 1), Span(width + 1, 1)),
    ):
        windows = Window(*every, Span(0, height), taken), Window(*every, inner, given)
        move(b, layer, (source, wide), windows, Stages())
    b.begin_layer()
    for taken, given in ((1, 0), (height, height + 1)):
        windows = [Window(*every, Span(row, 1), Span(0, width + 2)) for row in (taken, given)]
        move(b, layer, (wide, wide), (windows[0], windows[1]), Stages())
    b.begin_layer()
    return wide


def _verify(b: Builder, layer: Layer, shares: Sequence[np.ndarray]) -> None:
    """Raise CannotLower unless the operator gives the same of random numbers."""
    graph, node = b.graph, layer.head
    tensor = graph.tensors[layer.inputs[0].tensor]
    values = np.random.default_rng(0).standard_normal(tensor.shape).astype(numpy_dtype(tensor.dtype))
    fixed: Mapping[int, np.ndarray] = {
        each: np.asarray(graph.constants[each], order="C") for each in node.inputs if each in graph.constants
    }
    found = run_node(graph, node, {**fixed, node.inputs[0]: values})[node.outputs[0]]
    made = values.astype(np.float64)
    for axis, share in zip((2, 3), shares, strict=True):
        edges = [(1, 1) if place == axis else (0, 0) for place in range(4)]
        wide = np.pad(made, edges, "edge")
        size = made.shape[axis]
        parts = [wide.take(range(tap, tap + size), axis) for tap in range(3)]
        places = [sum(share[place, tap] * parts[tap] for tap in range(3)) for place in range(len(share))]
        made = np.stack(places, axis + 1).reshape(
            *made.shape[:axis], size * len(share), *made.shape[axis + 1 :]
        )
    if found.shape != made.shape or not np.allclose(found, made, atol=_TOLERANCE):
        raise CannotLower("positions that are not mixed by the same shares everywhere")


def _name(layer: Layer) -> str:
    return layer.head.name or layer.head.op_type
