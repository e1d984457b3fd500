"""Lower CumSum and CumProd along one axis, held whole in a partition."""

import math
from collections.abc import Callable

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import WIDE, binary
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import axis_tiles
from npuviz.targets.neuroncore.compiler.operators.reduction.reduction import constant_input
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

LIMIT = 4096
MOST_SCANS = 32_768
"""Most scans of an operator. Assumed: each row of a partition takes one, and 0.1 ms of compilation."""
_SCANNED = ("float32", "float16", "bfloat16", "int32", "uint32", "int64", "uint64")


def lower_cumulative(b: Builder, node: Node) -> None:
    """Lower CumSum and CumProd."""
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    if source.dtype not in _SCANNED:
        raise CannotLower(f"{node.op_type} of {source.dtype}")
    axis_values = constant_input(b, node, 1)
    assert axis_values is not None
    axis = int(axis_values.reshape(-1)[0]) % max(1, len(source.shape))
    num_scans = -(-math.prod(source.shape) // (max(1, source.shape[axis]) * NUM_PARTITIONS))
    if source.dtype not in WIDE and num_scans > MOST_SCANS:
        raise CannotLower(f"{node.op_type} of {num_scans:,} rows a partition, at most {MOST_SCANS:,}")
    op = Alu.ADD if node.op_type == "CumSum" else Alu.MULTIPLY
    exclusive = bool(node.attributes.get("exclusive", 0))
    reverse = bool(node.attributes.get("reverse", 0))
    for tile in axis_tiles(source.shape, axis, (source, target), LIMIT):
        order = slice(None, None, -1 if reverse else 1)
        with b.tiles.scope():
            # A scan runs along the pattern: put the axis last, backwards for a reverse scan.
            x = tile.fetch(b, 0)[:, order].permute(1, 0)
            whole = x.dtype in WIDE
            made = _steps(b, x, op) if whole else _scanned(b, x, op)
            if exclusive:
                made = _shifted(b, made, op)
            out = b.tiles.sbuf(tile.partitions, (tile.axis, tile.inner), made.dtype)
            b.isa.copy(out[:, order].permute(1, 0), made)
            tile.store(b, 1, out)


def _scanned(b: Builder, x: View, op: Alu) -> View:
    """Compute running totals along the last dimension of (P, inner, axis) by the scan instruction."""
    made, ones = (
        b.tiles.sbuf(x.partitions, x.shape, "float32"),
        b.tiles.sbuf(x.partitions, (x.shape[1],), "float32"),
    )
    b.isa.memset(ones, 1.0)
    for column in range(x.shape[0]):
        if op == Alu.ADD:
            b.isa.scan(made[:, column], ones, x[:, column], Alu.MULTIPLY, Alu.ADD, 0.0)
        else:
            b.isa.scan(made[:, column], x[:, column], ones, Alu.MULTIPLY, Alu.MULTIPLY, 1.0)
    return made


def _steps(b: Builder, x: View, op: Alu) -> View:
    """Compute exact running totals of integers in log2(axis) passes, over distances 1, 2, 4, ..."""
    made = b.tiles.sbuf(x.partitions, x.shape, x.dtype)
    b.isa.copy(made, x)
    distance = 1
    while distance < x.shape[1]:
        longer = b.tiles.sbuf(x.partitions, x.shape, x.dtype)
        b.isa.copy(longer[:, :, :distance], made[:, :, :distance])
        binary(b, longer[:, :, distance:], made[:, :, distance:], made[:, :, :-distance], op, integer=True)
        made = longer
        distance *= 2
    return made


def _shifted(b: Builder, x: View, op: Alu) -> View:
    """Return the totals of the elements before each element (exclusive)."""
    made = b.tiles.sbuf(x.partitions, x.shape, x.dtype)
    b.isa.memset(made[:, :, 0:1], 0 if op == Alu.ADD else 1)
    if x.shape[1] > 1:
        b.isa.copy(made[:, :, 1:], x[:, :, :-1])
    return made


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "CumSum": lower_cumulative,
    "CumProd": lower_cumulative,
}
