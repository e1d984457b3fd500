"""Writes operators on images for which the standard has no body: InstanceNormalization, and three that it had
on trial, which old exporters write (ImageScaler, Crop, Affine)."""

from math import prod

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.sub_pixels import write_slice
from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

_EPSILON = 1e-5
"""Ref: ONNX operators, InstanceNormalization version 6: default of `epsilon`."""
_REDUCED_BY_INPUT = 18
"""The first operator set in which ReduceMean has its axes as an input."""
_ROWS_OPSET = 17
"""The first operator set with LayerNormalization."""


def write_instance_normalization(writer: Writer, node: NodeProto) -> None:
    """Rewrite InstanceNormalization: rows (as group normalisation has them) by LayerNormalization, images by
    means over their pixels, whose channels machines may keep innermost."""
    del node
    shape = writer.shape(writer.given(0))
    scale, bias = writer.given(1), writer.given(2)
    if len(shape) < 3 or not prod(shape) or writer.dtype(writer.given(0)).kind != "f":
        raise CannotWrite
    is_rows = (len(shape) == 3 or shape[1] == 1) and writer.opset >= _ROWS_OPSET
    found = _even_rows(writer, shape) if is_rows else _even_images(writer, shape)
    each = (shape[1], *(1 for _ in shape[2:]))
    if not (writer.is_known(scale) and np.all(writer.known(scale) == 1)):
        found = writer.add("Mul", [found, writer.reshape(scale, each)])
    if not (writer.is_known(bias) and not np.any(writer.known(bias))):
        found = writer.add("Add", [found, writer.reshape(bias, each)])
    writer.reshape(found, shape, writer.wanted(0))


def _even_rows(writer: Writer, shape: tuple[int, ...]) -> str:
    width = prod(shape[2:])
    source = writer.given(0)
    ones = writer.constant("ones", np.ones(width, writer.dtype(source)))
    rows = writer.reshape(source, (shape[0] * shape[1], width))
    even = writer.add(
        "LayerNormalization", [rows, ones], axis=-1, epsilon=writer.attribute("epsilon", _EPSILON)
    )
    return writer.reshape(even, shape)


def _even_images(writer: Writer, shape: tuple[int, ...]) -> str:
    source = writer.given(0)
    off = writer.add("Sub", [source, _mean(writer, source, len(shape))])
    variance = _mean(writer, writer.add("Mul", [off, off]), len(shape))
    epsilon = writer.constant(
        "epsilon", np.full(1, writer.attribute("epsilon", _EPSILON), writer.dtype(source))
    )
    return writer.add("Div", [off, writer.add("Sqrt", [writer.add("Add", [variance, epsilon])])])


def _mean(writer: Writer, name: str, rank: int) -> str:
    axes = list(range(2, rank))
    if writer.opset < _REDUCED_BY_INPUT:
        return writer.add("ReduceMean", [name], axes=axes, keepdims=1)
    return writer.add("ReduceMean", [name, writer.constant("axes", np.array(axes, np.int64))], keepdims=1)


def write_image_scaler(writer: Writer, node: NodeProto) -> None:
    """Rewrite ImageScaler: a factor for all of an image, and a summand for each channel."""
    del node
    dtype = writer.dtype(writer.given(0))
    scale, bias = float(writer.attribute("scale", 1.0)), np.array(writer.attribute("bias", []), dtype)
    if not bias.size:
        raise CannotWrite
    found = writer.given(0)
    if scale != 1:
        found = writer.add("Mul", [found, writer.constant("scale", np.full(1, scale, dtype))])
    writer.add("Add", [found, writer.constant("bias", bias.reshape(-1, 1, 1))], writer.wanted(0))


def write_crop(writer: Writer, node: NodeProto) -> None:
    """Rewrite Crop: what is left between borders (left, top, right, bottom), or `scale` pixels behind."""
    del node
    shape, made = writer.shape(writer.given(0)), writer.shape(writer.wanted(0))
    border = [int(each) for each in writer.attribute("border", [])]
    if len(shape) != 4 or len(border) != 4:
        raise CannotWrite
    starts = (border[1], border[0])
    spans = [(start, start + size) for start, size in zip(starts, made[2:], strict=True)]
    write_slice(writer, writer.given(0), spans, writer.wanted(0))


def write_affine(writer: Writer, node: NodeProto) -> None:
    """Rewrite Affine: one factor and one summand."""
    del node
    dtype = writer.dtype(writer.given(0))
    alpha, beta = (
        writer.constant(name, np.full(1, float(writer.attribute(name, default)), dtype))
        for name, default in (("alpha", 1.0), ("beta", 0.0))
    )
    writer.add("Add", [writer.add("Mul", [writer.given(0), alpha]), beta], writer.wanted(0))
