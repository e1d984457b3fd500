"""Integers that do not hold what an operator computed: machines wrap or saturate and say nothing."""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.sim.checks.births import Held
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.machine import Hazard

_Operands = list[np.ndarray]
_COMPUTED: dict[str, Callable[[_Operands], np.ndarray]] = {
    "Add": lambda x: x[0] + x[1],
    "Sub": lambda x: x[0] - x[1],
    "Mul": lambda x: x[0] * x[1],
    "Pow": lambda x: x[0] ** x[1],
    "Neg": lambda x: -x[0],
    "Abs": lambda x: np.abs(x[0]),
    "Sum": lambda x: reduce(np.add, x),
    "MatMul": lambda x: x[0] @ x[1],
    "Cast": lambda x: x[0],
}
"""Operators whose results may lie outside of the type of their operands. Others choose, compare or count."""
_LONG_BYTES = 8


def overflows(graph: Graph, held: Held, cycle: int) -> Iterator[Hazard]:
    """One hazard for each operator that computed integers which its result's type does not hold.

    held  values of a tensor, None where no memory holds them: then nothing is said of who reads it
    Casts of integers to integers are left out: ONNX says what they give.
    """
    for node in graph.nodes:
        if node.op_type not in _COMPUTED or node.domain:
            continue
        result = graph.tensors[node.outputs[0]]
        limits = _limits(result.dtype)
        if limits is None:
            continue
        operands = [graph.constants[t] if t in graph.constants else held(t) for t in node.inputs]
        known = [values for values in operands if values is not None]
        if len(known) == len(operands) and (text := _text(node, known, limits)):
            what = f"{node.name or node.op_type} ({node.op_type}) {text} of {result.name}"
            yield hazard_of("overflow", cycle, "", -1, what, result.name)


def _limits(dtype: str) -> np.iinfo | None:
    """The integers that a type holds, None if it is no integer of numpy's."""
    try:
        return np.iinfo(dtype)
    except (TypeError, ValueError):
        return None


def _text(node: Node, operands: _Operands, limits: np.iinfo) -> str:
    """What does not fit, "" if all does."""
    if node.op_type == "Cast" and operands[0].dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        try:
            wide = _COMPUTED[node.op_type]([each.astype(np.float64) for each in operands])
        except (TypeError, ValueError):
            return ""  # no numbers, or shapes that only the operator itself understands
        # Truncated towards zero: 127.9 is held.
        outside = ~((np.trunc(wide) >= limits.min) & (np.trunc(wide) <= limits.max))
        if limits.dtype.itemsize == _LONG_BYTES and node.op_type != "Cast":
            # A double does not tell the largest from what is just above; what wrapped is far off.
            outside = np.abs(_COMPUTED[node.op_type](operands).astype(np.float64) - wide) > limits.max / 2
    if not outside.any():
        return ""
    worst = wide[outside].reshape(-1)[0]
    count = int(outside.sum())
    return f"computed {worst:g}, which {limits.dtype} does not hold, in {count} of {wide.size} elements"
