"""Lower normalisations of rows (layer, RMS, Lp), and Dropout at inference."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise import primitives
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.normalization.softmax import along_axis, reduce_axis
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import axis_tiles, store_as
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Activation, Alu, ReduceCmd

_RMS = ("RMSNormalization", "SimplifiedLayerNormalization")
_FLOATS = ("float32", "float16", "bfloat16")
STATISTICS_CHUNK = 512
"""Most elements of one bn_stats. Ref: SDK226."""
MAX_ROW = 10240
"""Most elements of a row that is normalised at once, because several fp32 copies are held."""


def float_inputs(b: Builder, node: Node) -> list[HbmView | None]:
    """Return the homes of all inputs. Raises CannotLower unless they are floats the engines have."""
    found: list[HbmView | None] = []
    for tensor in node.inputs:
        view = home(b, tensor) if tensor >= 0 else None
        if view is not None and b.graph.tensors[tensor].dtype not in _FLOATS:
            raise CannotLower(f"{node.op_type} of {view.dtype}")
        found.append(view)
    return found


def needed(views: Sequence[HbmView | None], index: int) -> HbmView:
    """Return input `index`. Raises CannotLower if it is missing."""
    found = views[index] if index < len(views) else None
    if found is None:
        raise CannotLower(f"input {index} is missing")
    return found


def statistics(b: Builder, x: View) -> View:
    """Compute mean and (population) variance of each partition's elements, (P, 2) fp32."""
    count = x.free_size
    flat = x.reshape(count)
    groups = -(-count // STATISTICS_CHUNK)
    # Two groups an instruction: the even and the odd elements.
    stats = b.tiles.sbuf(x.partitions, (groups, 6), "float32")
    for group in range(groups):
        piece = flat[:, group * STATISTICS_CHUNK : min(count, (group + 1) * STATISTICS_CHUNK)]
        b.isa.bn_stats(stats[:, group], piece)
    made = b.tiles.sbuf(x.partitions, (2,), "float32")
    b.isa.bn_aggr(made, stats.reshape(groups * 6))
    return made


def inverse_deviation(b: Builder, variance: View, epsilon: float) -> View:
    """Compute (variance + epsilon) ^ -0.5 in a new tile."""
    made = primitives.temporary(b, variance)
    primitives.scalar(b, made, variance, Alu.ADD, epsilon, Alu.POWER, -0.5)
    return made


def _repeated(b: Builder, row: HbmView, partitions: int, count: int) -> View:
    """Fetch a row of parameters to every partition."""
    return b.dma.fetch(row.reshape(1, count).broadcast_to((partitions, count)))


def lower_layer_normalization(b: Builder, node: Node) -> None:
    """Lower LayerNormalization and RMSNormalization over the last axes."""
    views = float_inputs(b, node)
    source, scale = needed(views, 0), needed(views, 1)
    shift = views[2] if len(views) > 2 else None
    target = home(b, node.outputs[0])
    axis = int(node.attributes.get("axis", -1)) % max(1, len(source.shape))
    rows, count = math.prod(source.shape[:axis]), math.prod(source.shape[axis:])
    if count > MAX_ROW:
        raise CannotLower(f"rows of {count} elements (at most {MAX_ROW})")
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    extra = [home(b, tensor) if tensor >= 0 else None for tensor in node.outputs[1:]]
    shape = source.shape[axis:]
    scale = scale.broadcast_to(shape)
    shift = shift.broadcast_to(shape) if shift is not None else None
    normalise = _rms_rows if node.op_type in _RMS else _layer_rows
    for start in range(0, rows, NUM_PARTITIONS):
        stop = min(start + NUM_PARTITIONS, rows)
        with b.tiles.scope():
            x = b.dma.fetch(source.reshape(rows, count)[start:stop])
            gain = _repeated(b, scale, stop - start, count)
            made, kept = normalise(b, x, gain, epsilon)
            if shift is not None:
                primitives.binary(b, made, made, _repeated(b, shift, stop - start, count), Alu.ADD)
            store_as(b, target.reshape(rows, count)[start:stop], made)
            for view, value in zip(extra, kept, strict=False):
                if view is not None:
                    store_as(b, view.reshape(rows, 1)[start:stop], value)


def _layer_rows(b: Builder, x: View, gain: View, epsilon: float) -> tuple[View, list[View]]:
    stats = statistics(b, x)
    mean, inverse = stats[:, 0:1], inverse_deviation(b, stats[:, 1:2], epsilon)
    made = primitives.temporary(b, x)
    b.isa.tensor_scalar(made, x, Alu.SUBTRACT, mean, Alu.MULTIPLY, inverse)
    primitives.binary(b, made, made, gain, Alu.MULTIPLY)
    return made, [mean, inverse]


def _rms_rows(b: Builder, x: View, gain: View, epsilon: float) -> tuple[View, list[View]]:
    made, total = primitives.temporary(b, x), b.tiles.sbuf(x.partitions, (1,), "float32")
    b.isa.activation(made, x, Activation.SQUARE, cmd=ReduceCmd.RESET_REDUCE, accumulators=total)
    primitives.scalar(b, total, total, Alu.MULTIPLY, 1.0 / x.free_size, Alu.ADD, epsilon)
    primitives.scalar(b, total, total, Alu.POWER, -0.5)
    b.isa.scalar_tensor_tensor(made, x, Alu.MULTIPLY, total, Alu.MULTIPLY, gain)
    return made, []


def lower_lp_normalization(b: Builder, node: Node) -> None:
    """Lower LpNormalization: x / norm along an axis, 0 if the norm is 0."""
    source, target = needed(float_inputs(b, node), 0), home(b, node.outputs[0])
    power = int(node.attributes.get("p", 2))
    if power not in (1, 2):
        raise CannotLower(f"the {power}-norm")
    for tile in axis_tiles(source.shape, int(node.attributes.get("axis", -1)), (source, target), MAX_ROW):
        with b.tiles.scope():
            x = tile.fetch(b, 0)
            made = primitives.temporary(b, x)
            if power == 1:
                primitives.scalar(b, made, x, Alu.ABS, 0.0)
            else:
                b.isa.activation(made, x, Activation.SQUARE)
            norm = reduce_axis(b, made, Alu.ADD)
            if power == 2:
                primitives.scalar(b, norm, norm, Alu.POWER, 0.5)
            primitives.where(b, norm, primitives.compared(b, norm, Alu.EQUAL, 0.0), 1.0)
            primitives.binary(b, made, x, along_axis(norm, x), Alu.DIVIDE)
            tile.store(b, 1, made)


def lower_dropout(b: Builder, node: Node) -> None:
    """Lower Dropout that drops nothing: copy the input, and fill the mask with ones."""
    inputs = list(node.inputs)
    training = b.graph.constants.get(inputs[2]) if len(inputs) > 2 and inputs[2] >= 0 else 0
    ratio = b.graph.constants.get(inputs[1]) if len(inputs) > 1 and inputs[1] >= 0 else 0.5
    if training is None or (bool(np.any(training)) and (ratio is None or bool(np.any(ratio)))):
        raise CannotLower("Dropout in training mode is random")
    b.dma.copy(b.hbm[node.outputs[0]], b.hbm[inputs[0]])
    if len(node.outputs) > 1 and node.outputs[1] >= 0:
        mask = b.graph.tensors[node.outputs[1]]
        ones = b.hbm.constant(np.broadcast_to(np.ones((), np.uint8), mask.shape), f"{mask.name}.ones")
        view = b.hbm[node.outputs[1]]
        b.dma.copy(view.bitcast("uint8") if view.dtype == "bool" else view, ones)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "LayerNormalization": lower_layer_normalization,
    **dict.fromkeys(_RMS, lower_layer_normalization),
    "LpNormalization": lower_lp_normalization,
    "Dropout": lower_dropout,
}
