"""Rewrites operators of the tabular domain (ai.onnx.ml) that are products and sums."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import LISTS_ARE_INPUTS, CannotWrite, Writer

_AFTER = {b"NONE": "", b"SOFTMAX": "Softmax", b"LOGISTIC": "Sigmoid"}
"""What follows the scores of a linear model -> the operator that does it."""


def _floats(writer: Writer) -> str:
    """Return the operator's table in fp32. Raises CannotWrite if it is not one of rows and columns."""
    source = writer.given(0)
    if len(writer.shape(source)) != 2:
        raise CannotWrite
    return source if writer.dtype(source) == np.float32 else writer.cast(source, np.float32)


def _scores(writer: Writer, count: int, output: str) -> str:
    """Write a linear model's sums, `count` for each row."""
    table = _floats(writer)
    weights = np.array(writer.attribute("coefficients", []), np.float32)
    columns = writer.shape(writer.given(0))[1]
    shift = np.array(writer.attribute("intercepts", [0.0] * count), np.float32)
    if weights.size != count * columns or shift.size != count:
        raise CannotWrite
    matrix = writer.constant("coefficients", weights.reshape(count, columns).T)
    return writer.add("Add", [writer.add("MatMul", [table, matrix]), writer.constant("shift", shift)], output)


def write_regressor(writer: Writer, node: NodeProto) -> None:
    """Rewrite LinearRegressor: a product and a sum."""
    del node
    if writer.attribute("post_transform", b"NONE") != b"NONE":
        raise CannotWrite
    _scores(writer, int(writer.attribute("targets", 1)), writer.wanted(0))


def write_classifier(writer: Writer, node: NodeProto) -> None:
    """Rewrite LinearClassifier with a score for each of several numbered classes."""
    del node
    classes = np.array(writer.attribute("classlabels_ints", []), np.int64)
    after = _AFTER.get(writer.attribute("post_transform", b"NONE"))
    if classes.size < 2 or after is None:
        raise CannotWrite
    scores = _scores(writer, classes.size, "" if after else writer.wanted(1))
    if after:
        more = {"axis": -1} if after == "Softmax" else {}
        writer.add(after, [scores], writer.wanted(1), **more)
    best = writer.add("ArgMax", [scores], axis=1, keepdims=0)
    writer.add("Gather", [writer.constant("classes", classes), best], writer.wanted(0), axis=0)


def write_normalizer(writer: Writer, node: NodeProto) -> None:
    """Rewrite Normalizer by sums of magnitudes or squares; a row of zeros stays as it is."""
    del node
    kind = writer.attribute("norm", b"MAX")
    if kind not in (b"L1", b"L2"):
        raise CannotWrite
    table = _floats(writer)
    sizes = writer.add("Abs", [table]) if kind == b"L1" else writer.add("Mul", [table, table])
    if writer.opset < LISTS_ARE_INPUTS:
        norm = writer.add("ReduceSum", [sizes], axes=[1], keepdims=1)
    else:
        axes = writer.constant("axes", np.array([1], np.int64))
        norm = writer.add("ReduceSum", [sizes, axes], keepdims=1)
    norm = norm if kind == b"L1" else writer.add("Sqrt", [norm])
    zero, one = (writer.constant(str(number), np.full(1, number, np.float32)) for number in (0, 1))
    safe = writer.add("Where", [writer.add("Greater", [norm, zero]), norm, one])
    writer.add("Div", [table, safe], writer.wanted(0))


def write_binarizer(writer: Writer, node: NodeProto) -> None:
    """Rewrite Binarizer: whether an element is above a threshold, as 1 or 0."""
    del node
    source = writer.given(0)
    if writer.dtype(source) != np.float32:
        raise CannotWrite
    threshold = writer.constant("threshold", np.float32(writer.attribute("threshold", 0.0)))
    is_above = writer.add("Greater", [source, threshold])
    writer.add("Cast", [is_above], writer.wanted(0), to=1)


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {
    "Binarizer": write_binarizer,
    "LinearClassifier": write_classifier,
    "LinearRegressor": write_regressor,
    "Normalizer": write_normalizer,
}
