"""Lower ConvInteger and QLinearConv: PE multiplies 8-bit integers minus their zero points in bfloat16."""

from math import prod

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.conv import emit_convolution, stored_or_live
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import Values
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Epilogue
from npuviz.targets.neuroncore.compiler.operators.quantized.requantize import (
    OPERAND_DTYPE,
    Requantize,
    centred,
    centred_array,
    known_factor,
    largest_sum,
    number_of,
    require_bytes,
    require_exact,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView


def lower_conv_integer(b: Builder, node: Node) -> None:
    """Lower ConvInteger, with int32 sums."""
    source, weights, *zeros = (*node.inputs, -1, -1)
    require_bytes(b, source, weights)
    axes = tuple(range(1, len(b.graph.tensors[weights].shape)))
    require_exact(largest_sum(b, (source, zeros[0]), (weights, zeros[1]), axes, 0))
    values = _values(b, source, zeros[0])
    emit_convolution(
        b,
        node,
        values,
        _weights(b, weights, zeros[1]),
        None,
        Epilogue(b, node, (), node.outputs[0]),
        b.graph.tensors[weights].name,
    )


def lower_qlinear_conv(b: Builder, node: Node) -> None:
    """Lower QLinearConv: add an int32 bias to the sums, then scale, round and saturate to 8 bits."""
    source, scale, zero, weights, weight_scale, weight_zero, out_scale, out_zero = node.inputs[:8]
    bias = node.inputs[8] if len(node.inputs) > 8 else -1
    require_bytes(b, source, weights, node.outputs[0])
    shape = b.graph.tensors[node.outputs[0]].shape
    by_channel = (-1, *(1,) * (len(shape) - 2))
    requantize = Requantize(
        b,
        node.outputs[0],
        (
            b.hbm[scale].reshape(1).broadcast_to(shape),
            b.hbm[weight_scale].reshape(*by_channel).broadcast_to(shape),
        ),
        b.hbm[out_scale].reshape(1).broadcast_to(shape),
        b.hbm[out_zero].reshape(1).broadcast_to(shape),
        _factor(b, (scale, weight_scale, out_scale), by_channel, shape),
        number_of(b, out_zero),
    )
    values = _values(b, source, zero)
    addend = stored_or_live(b, bias) if bias >= 0 else None
    stored = _weights(b, weights, weight_zero)
    emit_convolution(b, node, values, stored, addend, requantize, b.graph.tensors[weights].name)


def _factor(
    b: Builder, scales: tuple[int, int, int], by_channel: tuple[int, ...], shape: tuple[int, ...]
) -> float | HbmView | None:
    """Return what the sums are multiplied by, if the scales of inputs, weights and result are constants."""
    values = known_factor(b, scales[:2], scales[2])
    if values is None or values.size == 1:
        return None if values is None else float(values[0])
    stored = b.hbm.made_once(("factor", *scales), lambda: values, "factor")
    return stored.reshape(*by_channel).broadcast_to(shape)


def _values(b: Builder, source: int, zero: int) -> HbmView | Values:
    """Return the input minus its zero point, which is subtracted behind the loads if it is one known
    number."""
    number = 0.0 if zero < 0 else number_of(b, zero)
    if number is None or source in b.graph.constants:
        return centred(b, source, zero, (1,))
    return Values(b.hbm[source], OPERAND_DTYPE, number)


def _weights(b: Builder, weights: int, zero: int) -> HbmView | np.ndarray:
    known = centred_array(b, weights, zero, 0)
    if known is not None:
        return known
    shape = b.graph.tensors[weights].shape
    zeros = b.graph.tensors[zero].shape if zero >= 0 else ()
    return centred(b, weights, zero, (-1, *(1,) * (len(shape) - 1)) if prod(zeros) > 1 else (1,))


LOWERINGS = {"ConvInteger": lower_conv_integer, "QLinearConv": lower_qlinear_conv}
