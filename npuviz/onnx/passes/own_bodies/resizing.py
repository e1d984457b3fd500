"""Writes Resize and Upsample as products with constant matrices, one for each axis that changes."""

from math import prod

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer
from npuviz.onnx.semantics.attributes import Attributes
from npuviz.onnx.semantics.resize_weights import AxisResize, Given, resize_axes

_SIZES_OPSET = 11
"""The first operator set in which Resize has a region, and modes of its coordinates."""
MAX_WEIGHTS = 1 << 22
"""Most elements of a matrix."""


def write_resize(writer: Writer, node: NodeProto) -> None:
    """Rewrite a Resize of images, whatever its mode: with channels last, an axis is one of the rows of
    matrices, which a constant matrix mixes."""
    source, result = writer.shape(writer.given(0)), writer.shape(writer.wanted(0))
    kind = writer.dtype(writer.given(0))
    if len(source) < 3 or not prod(source) or not prod(result) or kind.kind != "f":
        raise CannotWrite
    try:
        axes = _axes(writer, node, source, result)
        matrices = {place: _matrix(axis) for place, axis in enumerate(axes) if not _is_kept(axis)}
    except CannotLower:
        raise CannotWrite from None
    if not matrices or min(matrices) < 2 or any(axes[place].outside().any() for place in matrices):
        raise CannotWrite
    if max(matrix.size for matrix in matrices.values()) > MAX_WEIGHTS:
        raise CannotWrite
    rank = len(source)
    running = writer.add("Transpose", [writer.given(0)], perm=[0, *range(2, rank), 1])
    shape = [source[0], *source[2:], source[1]]
    # Axes that shrink most come first, so that the others have the least to do.
    for place in sorted(matrices, key=lambda place: (result[place] / source[place], -place)):
        at, matrix = place - 1, matrices[place]
        wide = (prod(shape[:at]), shape[at], prod(shape[at + 1 :]))
        weights = writer.constant(f"weights_{place}", matrix.astype(kind))
        running = writer.add("MatMul", [weights, writer.reshape(running, wide)])
        shape[at] = result[place]
        running = writer.reshape(running, shape)
    writer.add("Transpose", [running], writer.wanted(0), perm=[0, rank - 1, *range(1, rank - 1)])


def _axes(
    writer: Writer, node: NodeProto, shape: tuple[int, ...], result: tuple[int, ...]
) -> list[AxisResize]:
    given = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    is_old = node.op_type == "Upsample" or writer.opset < _SIZES_OPSET

    def known(position: int) -> np.ndarray | None:
        name = writer.given(position)
        values = writer.known(name) if name else None
        return None if values is None or not values.size else values

    if is_old:
        scales = known(1) if "scales" not in given else np.asarray(given["scales"], np.float32)
        found = Given(shape, result, None, scales)
    else:
        sizes = known(3)
        listed = None if sizes is None else [int(each) for each in sizes.reshape(-1)]
        found = Given(shape, result, known(1), known(2), listed)
    return resize_axes(Attributes(node.op_type, given, opset=writer.opset), found, is_old)


def _matrix(axis: AxisResize) -> np.ndarray:
    """Return the shares of the sources in each result, (out, size)."""
    return np.eye(axis.size)[axis.sources()] if axis.mode == "nearest" else axis.weights()


def _is_kept(axis: AxisResize) -> bool:
    return axis.size == axis.out and np.array_equal(_matrix(axis), np.eye(axis.size))
