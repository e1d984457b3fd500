"""Rewrites the forms of Gelu that ONNX Runtime's optimiser writes, two of them with a sum in front."""

from collections.abc import Callable, Mapping
from math import pi, sqrt

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import Writer

_GELU_FROM = 20
"""The first operator set with Gelu."""
_CUBE = 0.044715
"""Ref: Hendrycks and Gimpel, Gaussian Error Linear Units, section 2: the form by tanh."""


def write_bias_gelu(writer: Writer, node: NodeProto) -> None:
    """Rewrite BiasGelu: a sum and a Gelu."""
    del node
    total = writer.add("Add", [writer.given(0), writer.given(1)])
    domain = "" if writer.opset >= _GELU_FROM else "com.microsoft"
    writer.add("Gelu", [total], writer.wanted(0), domain=domain)


def write_fast_gelu(writer: Writer, node: NodeProto) -> None:
    """Rewrite FastGelu: a sum, if there is a bias, and the Gelu by tanh; before operator set 20 this one is
    written as x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), since (1 + tanh(a)) / 2 is sigmoid(2 a)."""
    del node
    x = writer.given(0)
    if writer.given(1):
        x = writer.add("Add", [x, writer.given(1)])
    if writer.opset >= _GELU_FROM:
        writer.add("Gelu", [x], writer.wanted(0), approximate="tanh")
        return
    dtype = writer.dtype(writer.given(0)).type
    factor = 2 * sqrt(2 / pi)
    square = writer.add("Mul", [x, x])
    cubic = writer.add("Mul", [square, writer.constant("cubic", dtype(factor * _CUBE))])
    slope = writer.add("Add", [cubic, writer.constant("linear", dtype(factor))])
    share = writer.add("Sigmoid", [writer.add("Mul", [slope, x])])
    writer.add("Mul", [x, share], writer.wanted(0))


def write_quick_gelu(writer: Writer, node: NodeProto) -> None:
    """Rewrite QuickGelu: x * sigmoid(alpha x)."""
    del node
    x, alpha = writer.given(0), float(writer.attribute("alpha", 1.702))
    if alpha != 1:
        dtype: np.dtype = writer.dtype(x)
        x = writer.add("Mul", [x, writer.constant("alpha", dtype.type(alpha))])
    writer.add("Mul", [writer.given(0), writer.add("Sigmoid", [x])], writer.wanted(0))


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {
    "BiasGelu": write_bias_gelu,
    "FastGelu": write_fast_gelu,
    "QuickGelu": write_quick_gelu,
}
