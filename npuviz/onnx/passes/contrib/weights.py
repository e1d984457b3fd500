"""Rewrites products with weights of few bits: the weights are dequantised at compile time."""

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer


def write_matmul_nbits(writer: Writer, node: NodeProto) -> None:
    """Rewrite MatMulNBits: a product with weights of 2, 4 or 8 bits in blocks along the rows, each with a
    scale."""
    del node
    depth, columns = int(writer.attribute("K", 0)), int(writer.attribute("N", 0))
    bits, block = int(writer.attribute("bits", 4)), int(writer.attribute("block_size", 0))
    if writer.given(4) or bits not in (2, 4, 8):
        raise CannotWrite
    dtype = writer.dtype(writer.given(0))
    blocks = -(-depth // block)
    stored = unpacked(writer.known(writer.given(1)).reshape(columns, -1), bits, blocks * block)
    scales = writer.known(writer.given(2)).astype(np.float32).reshape(columns, blocks, 1)
    zeros = np.full((columns, blocks, 1), float(1 << (bits - 1)), np.float32)
    if writer.given(3):
        points = writer.known(writer.given(3))
        if points.dtype == np.uint8:
            points = unpacked(points.reshape(columns, -1), bits, blocks)
        zeros = points.astype(np.float32).reshape(columns, blocks, 1)
    weights = (stored.astype(np.float32).reshape(columns, blocks, block) - zeros) * scales
    weights = weights.reshape(columns, -1)[:, :depth].T.astype(dtype)
    product = [writer.given(0), writer.constant("weights", weights)]
    if writer.given(5):
        writer.add("Add", [writer.add("MatMul", product), writer.given(5)], writer.wanted(0))
    else:
        writer.add("MatMul", product, writer.wanted(0))


def unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Unpack (rows, bytes) to (rows, count) uint8 numbers, the lowest bits of a byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    single = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return single.reshape(packed.shape[0], -1)[:, :count]
