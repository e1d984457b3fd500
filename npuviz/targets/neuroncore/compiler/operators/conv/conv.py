"""Lower Conv with any kernel, stride, dilation, padding and groups, in one to three dimensions."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import (
    DirectInput,
    PackedInput,
    Packing,
    Values,
    choose_packing,
)
from npuviz.targets.neuroncore.compiler.operators.conv.loops import Convolution, input_boxes
from npuviz.targets.neuroncore.compiler.operators.conv.weights import (
    Bias,
    Channels,
    LiveBias,
    LiveWeights,
    StoredBias,
    StoredWeights,
    Weights,
    block_size,
    pack_groups,
)
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Epilogue
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import operand_dtype
from npuviz.targets.neuroncore.compiler.operators.quantized.requantize import Requantize
from npuviz.targets.neuroncore.compiler.operators.windows import Axes, three_axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes


def lower_conv(b: Builder, node: Node) -> None:
    """Lower Conv."""
    conv_group(b, node, ())


def conv_group(b: Builder, node: Node, followers: Sequence[Node]) -> None:
    """Lower a Conv and element-wise operators on its result."""
    present = [tensor for tensor in node.inputs if tensor >= 0]
    require_floats(b, present)
    result = followers[-1].outputs[0] if followers else node.outputs[0]
    bias = stored_or_live(b, node.inputs[2]) if len(present) > 2 else None
    weights = stored_or_live(b, node.inputs[1])
    name = b.graph.tensors[node.inputs[1]].name
    epilogue = Epilogue(b, node, followers, result)
    emit_convolution(b, node, b.hbm[node.inputs[0]], weights, bias, epilogue, name)


def emit_convolution(
    b: Builder,
    node: Node,
    source: HbmView | Values,
    weights: HbmView | np.ndarray,
    bias: HbmView | np.ndarray | None,
    epilogue: Epilogue | Requantize,
    name: str,
) -> None:
    """Convolve [N, C, spatial...] with [M, C / groups, spatial...]; constants are given as arrays.

    The windows are those of the node's attributes; the result is the tensor of the epilogue.
    name  name of the weights
    """
    out = b.hbm[epilogue.result]
    kernel = weights.shape[2:]
    values = Values(source, operand_dtype(b, source.dtype)) if isinstance(source, HbmView) else source
    view, dtype = values.view, values.dtype
    axes = three_axes(node, view.shape, out.shape, kernel)
    groups = int(node.attributes.get("group", 1))
    channels = Channels(groups, view.shape[1] // groups, out.shape[1] // groups)
    view, axes = _flat_if_pointwise(b, view, axes, channels, dtype)
    values = replace(values, view=view)
    shape = (out.shape[0], out.shape[1], axes[0].out, axes[1].out, axes[2].out)
    inputs = channels.inputs
    packing = None
    if isinstance(weights, np.ndarray):
        packing = choose_packing(axes, channels, item_bytes(values.loaded_dtype), b.spec)
    chosen, channels = _weights(b, weights, channels, axes, packing, (dtype, name))
    limit = b.spec.sbuf_usable_bytes // 4
    boxes = input_boxes(
        axes,
        len(channels.input_parts),
        item_bytes(dtype),
        (limit if packing is None else limit // 4, limit),
        packing,
    )
    Convolution(
        b,
        axes,
        channels,
        DirectInput(b, values, axes, channels)
        if packing is None
        else PackedInput(b, values, packing, inputs),
        chosen,
        _bias(b, bias, channels, name),
        epilogue,
        out.reshape(*shape),
        shape,
        boxes,
    ).run()


def stored_or_live(b: Builder, tensor: int) -> HbmView | np.ndarray:
    """Return a tensor's values if they are known when compiling, else its home."""
    known = b.graph.constants.get(tensor)
    return b.hbm[tensor] if known is None else known


def _bias(b: Builder, bias: HbmView | np.ndarray | None, channels: Channels, name: str) -> Bias | None:
    if bias is None:
        return None
    if isinstance(bias, np.ndarray):
        return StoredBias(b, bias, channels, f"{name}/bias")
    return LiveBias(b, bias)


def _flat_if_pointwise(
    b: Builder, source: HbmView, axes: Axes, channels: Channels, dtype: str
) -> tuple[HbmView, Axes]:
    """Return source [N, C, planes, rows, columns] and axes; if pointwise and small, with one row of
    positions.
    """
    shape = (*source.shape[:2], *(axis.size for axis in axes))
    is_pointwise = all((a.kernel, a.stride, a.before) == (1, 1, 0) and a.out == a.size for a in axes)
    count = prod(shape[2:])
    size = len(channels.input_parts) * count * item_bytes(dtype)
    if is_pointwise and size <= b.spec.sbuf_usable_bytes // 4:
        one = WindowAxis(1, 1)
        return source.reshape(*shape[:2], 1, 1, count), (one, one, WindowAxis(count, count))
    return source.reshape(*shape), axes


def _weights(
    b: Builder,
    weights: HbmView | np.ndarray,
    channels: Channels,
    axes: Axes,
    packing: Packing | None,
    kind: tuple[str, str],
) -> tuple[Weights, Channels]:
    """Return the weights in the layout of PE, and the channels in it; kind is (dtype, name)."""
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    if not isinstance(weights, np.ndarray):
        view = weights.reshape(weights.shape[0], channels.inputs * taps)
        return LiveWeights(b, view, channels, taps, kind[0]), channels
    if packing is not None:
        array = packing.weights(
            weights.reshape(channels.outputs, channels.inputs, axes[1].kernel, axes[2].kernel)
        )
        channels = Channels(1, array.shape[1], channels.outputs)
        taps = packing.taps
    else:
        array = weights.reshape(weights.shape[0], channels.inputs, taps)
        channels = pack_groups(channels.groups, channels.inputs, channels.outputs)
    block = block_size(channels, taps, item_bytes(kind[0]), b.spec.sbuf_usable_bytes // 4)
    return StoredWeights(b, array, channels, *kind, block), channels


LOWERINGS = {"Conv": lower_conv}
EPILOGUES = {"Conv": conv_group}
