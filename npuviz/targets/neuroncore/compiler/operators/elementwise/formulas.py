"""Emit any elementwise operator as instructions on tiles of one shape."""

from collections.abc import Sequence

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Graph, Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.arithmetic import ARITHMETIC, Formula
from npuviz.targets.neuroncore.compiler.operators.elementwise.cast import emit_cast
from npuviz.targets.neuroncore.compiler.operators.elementwise.functions import FUNCTIONS, single_activation
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import Operand
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation

FORMULAS: dict[str, Formula] = {**ARITHMETIC, **FUNCTIONS, "Cast": emit_cast, "CastLike": emit_cast}
"""{elementwise operator: formula}."""
UNREAD_INPUTS: dict[str, frozenset[int]] = {
    "CastLike": frozenset({1}),
    "BatchNormalization": frozenset({1, 2, 3, 4}),
}
"""Inputs whose values the formula does not read: only their type, or constants computed before."""


def emit(b: Builder, node: Node, operands: Sequence[Operand | None], dst: View) -> None:
    """Emit `dst` = the operator of `node` on tiles of the shape of `dst`.

    operands  one per node input: a tile (View) that has or broadcasts to the shape of `dst`, one value
              a partition (free size 1), a number, or None where an optional input is absent
    dst       new tile in the output's device type; must not overlap the operands
    Raises CannotLower before anything is emitted.
    """
    formula = FORMULAS.get(node.op_type)
    if formula is None:
        raise CannotLower(f"{node.op_type} is no elementwise operator")
    with b.tiles.scope():
        formula(b, node, operands, dst)


def as_activation(graph: Graph, node: Node) -> tuple[Activation, float] | None:
    """Return (function, slope) if one activation instruction computes the node's operator, else None."""
    if graph.tensors[node.outputs[0]].dtype not in ("float32", "float16", "bfloat16"):
        return None
    return single_activation(node)
