"""Rewrites Scaler of the tabular domain (ai.onnx.ml) as a difference and a product."""

from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer


def write_scaler(writer: Writer, node: NodeProto) -> None:
    """Rewrite Scaler: (x - offset) * scale in fp32, with one number for all columns or one for each."""
    del node
    source = writer.given(0)
    columns = writer.shape(source)[-1:]
    offset, scale = (
        np.array(writer.attribute(name, [default]), np.float32)
        for name, default in (("offset", 0), ("scale", 1))
    )
    if any(values.shape not in ((1,), columns) for values in (offset, scale)):
        raise CannotWrite
    source = source if writer.dtype(source) == np.float32 else writer.cast(source, np.float32)
    moved = writer.add("Sub", [source, writer.constant("offset", offset)])
    writer.add("Mul", [moved, writer.constant("scale", scale)], writer.wanted(0))


WRITERS: dict[str, Callable[[Writer, NodeProto], None]] = {"Scaler": write_scaler}
