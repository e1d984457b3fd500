"""AveragePool: sums of windows times one over the elements that count."""

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.pool.pool import require_floats
from npuviz.targets.neuroncore.compiler.operators.pool.sliding_reduction import (
    Axes,
    pool_axes,
    slide,
    windows,
)
from npuviz.targets.neuroncore.compiler.operators.windows import Axis, attribute_text, padding_after
from npuviz.targets.neuroncore.isa import Alu


def lower_average_pool(b: Builder, node: Node) -> None:
    """AveragePool with ceil_mode, dilations and count_include_pad."""
    require_floats(b, node)
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    axes = pool_axes(node, source, out)
    counts = _counts(node, axes, len(source.shape) - 2)
    divisors = np.einsum("i,j,k->ijk", *counts).astype(np.float32)
    is_uniform = bool((divisors == divisors.flat[0]).all())
    # Where no element counts, the sum is 0 as well; 1 keeps the quotient finite.
    home = None if is_uniform else b.hbm.constant(np.maximum(divisors, 1)[None], f"{node.name}/divisors")
    for window in windows(b, source, out, axes):
        total = slide(b, window, axes, Alu.ADD, 0.0, "float32")
        result = b.tiles.sbuf(total.partitions, total.shape, out.dtype)
        if home is None:
            b.isa.tensor_scalar(result, total, Alu.MULTIPLY, 1.0 / float(max(1.0, divisors.flat[0])))
        else:
            part = window.box.of(home)
            by = b.dma.fetch(part.broadcast_to((total.partitions, *part.shape[1:])))
            b.isa.tensor_tensor(result, total, by, Alu.DIVIDE)
        b.dma.store(window.out, result)


def _counts(node: Node, axes: Axes, rank: int) -> list[np.ndarray]:
    """Elements that count, by output of each axis."""
    includes = bool(node.attributes.get("count_include_pad", 0))
    after = padding_after(node, rank)
    if attribute_text(node.attributes, "auto_pad", "NOTSET").startswith("SAME"):
        after = [max(0, _total_padding(axis) - axis.before) for axis in axes]
    return [
        np.array(axis.counts(end if includes else -1), dtype=np.float32)
        for axis, end in zip(axes, after, strict=True)
    ]


def _total_padding(axis: Axis) -> int:
    return (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - axis.size


LOWERINGS = {"AveragePool": lower_average_pool}
