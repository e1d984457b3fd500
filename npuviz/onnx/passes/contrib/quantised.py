"""Rewrites operators on 8-bit tensors as their float forms between DequantizeLinear and QuantizeLinear."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

_AXES_FROM = 13
"""The operator set from which on DequantizeLinear has an axis, and Softmax works on one axis only."""


def _real(writer: Writer, first: int, axis: int = 0) -> str:
    """Dequantise a tensor, whose scale and zero point are the inputs behind it; done once for all its
    readers.

    first  position of the tensor among the inputs;  axis  of the scales, if there are several
    """
    tensor, scale, point = (writer.given(first + place) for place in range(3))
    key = ("real", tensor, scale, point, axis)
    if writer.shared(key):
        return writer.shared(key)
    if np.size(writer.known(scale)) == 1:
        names = [name for name in (tensor, scale, point) if name]
        return writer.share(key, writer.add("DequantizeLinear", names))
    if writer.opset < _AXES_FROM:
        raise CannotWrite
    points = writer.known(point) if point else np.zeros(1, writer.dtype(tensor))
    values = np.broadcast_to(points.reshape(-1), np.shape(writer.known(scale)))
    each = writer.constant(f"points_{first}", values)
    return writer.share(key, writer.add("DequantizeLinear", [tensor, scale, each], axis=axis))


def _stored(writer: Writer, real: str, first: int) -> None:
    """Quantise real numbers to the node's result, with the scale and zero point at input `first` and behind
    it."""
    names = [real, *(writer.given(first + place) for place in range(2))]
    if np.size(writer.known(names[1])) != 1:
        raise CannotWrite
    writer.add("QuantizeLinear", [name for name in names if name], writer.wanted(0))


def _attributes(node: NodeProto, *without: str) -> dict[str, Any]:
    return {
        item.name: helper.get_attribute_value(item) for item in node.attribute if item.name not in without
    }


def write_conv(writer: Writer, node: NodeProto) -> None:
    """Rewrite QLinearConv, whose bias has the scale of features times weights; that of com.microsoft may have
    its channels last, but for those of the weights."""
    rank = len(writer.shape(writer.given(0)))
    is_turned = bool(writer.attribute("channels_last", 0))
    source = _real(writer, 0)
    if is_turned:
        source = writer.add("Transpose", [source], perm=[0, rank - 1, *range(1, rank - 1)])
    inputs = [source, _real(writer, 3)]
    if writer.given(8):
        inputs.append(_bias(writer, writer.given(1), writer.given(4), writer.given(8)))
    made = writer.add("Conv", inputs, **_attributes(node, "channels_last"))
    if is_turned:
        made = writer.add("Transpose", [made], perm=[0, *range(2, rank), 1])
    _stored(writer, made, 6)


def _bias(writer: Writer, *names: str) -> str:
    """Dequantise a bias of int32. names  scale of the features, scale of the weights, bias"""
    one, two, stored = names
    steps = np.float32(writer.known(one).reshape(-1)[0]) * writer.known(two).reshape(-1).astype(np.float32)
    values = writer.known(stored).reshape(-1).astype(np.float64) * steps
    return writer.constant("bias", values.astype(np.float32))


def write_product(writer: Writer, node: NodeProto) -> None:
    """Rewrite QLinearMatMul."""
    del node
    columns = max(0, len(writer.shape(writer.given(3))) - 1)
    product = writer.add("MatMul", [_real(writer, 0), _real(writer, 3, columns)])
    _stored(writer, product, 6)


def write_gemm(writer: Writer, node: NodeProto) -> None:
    """Rewrite QGemm with a result of 8 bits."""
    if not writer.given(7) or float(writer.attribute("alpha", 1.0)) != 1:
        raise CannotWrite
    is_turned = bool(writer.attribute("transB", 0))
    inputs = [_real(writer, 0), _real(writer, 3, 0 if is_turned else 1)]
    if writer.given(6):
        inputs.append(_bias(writer, writer.given(1), writer.given(4), writer.given(6)))
    _stored(writer, writer.add("Gemm", inputs, **_attributes(node)), 7)


def _pair(op_type: str) -> Callable[[Writer, NodeProto], None]:
    def write(writer: Writer, node: NodeProto) -> None:
        del node
        _stored(writer, writer.add(op_type, [_real(writer, 0), _real(writer, 3)]), 6)

    return write


def _single(op_type: str, *without: str) -> Callable[[Writer, NodeProto], None]:
    def write(writer: Writer, node: NodeProto) -> None:
        if writer.attribute("channels_last", 0):
            raise CannotWrite
        made = writer.add(op_type, [_real(writer, 0)], **_attributes(node, *without))
        _stored(writer, made, 3)

    return write


def write_softmax(writer: Writer, node: NodeProto) -> None:
    """Rewrite QLinearSoftmax, whose meaning is that of a version of its own: before 13, all axes from `axis`
    on are one row."""
    del node
    shape = writer.shape(writer.given(0))
    last = len(shape) - 1
    axis = int(writer.attribute("axis", -1)) % max(1, len(shape))
    real = _real(writer, 0)
    if axis == last:
        _stored(writer, writer.add("Softmax", [real], axis=axis), 3)
    elif int(writer.attribute("opset", 0)) < _AXES_FROM:
        rows = writer.reshape(real, (prod(shape[:axis]), prod(shape[axis:])))
        _stored(writer, writer.reshape(writer.add("Softmax", [rows], axis=1), shape), 3)
    else:
        order = [place for place in range(last + 1) if place != axis] + [axis]
        turned = writer.add("Softmax", [writer.add("Transpose", [real], perm=order)], axis=last)
        _stored(writer, writer.add("Transpose", [turned], perm=np.argsort(order).tolist()), 3)


def write_concat(writer: Writer, node: NodeProto) -> None:
    """Rewrite QLinearConcat, whose first inputs are scale and zero point of the result."""
    parts = [_real(writer, place) for place in range(2, len(node.input), 3)]
    _stored(writer, writer.add("Concat", parts, **_attributes(node)), 0)


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {
    "QGemm": write_gemm,
    "QLinearAdd": _pair("Add"),
    "QLinearAveragePool": _single("AveragePool", "channels_last"),
    "QLinearConcat": write_concat,
    "QLinearConv": write_conv,
    "QLinearGlobalAveragePool": _single("GlobalAveragePool", "channels_last"),
    "QLinearLeakyRelu": _single("LeakyRelu"),
    "QLinearMatMul": write_product,
    "QLinearMul": _pair("Mul"),
    "QLinearSigmoid": _single("Sigmoid"),
    "QLinearSoftmax": write_softmax,
}
"""Operator -> function that writes its float form. Of these, QLinearConv and QLinearMatMul are of the
standard."""
