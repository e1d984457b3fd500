"""Find integers that do not fit into the type of an operator's result: machines wrap or saturate silently."""

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
"""Operators whose results may not fit into the type of their operands, and what they compute; other operators
choose, compare or count."""
_REDUCED: dict[str, Callable[..., np.ndarray]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceSumSquare": lambda x, **given: np.sum(x * x, **given),
    "ReduceL1": lambda x, **given: np.sum(np.abs(x), **given),
    "CumSum": np.cumsum,
}
"""The same along axes: those of the second operand or an attribute, or all axes if none are named."""
_LONG_BYTES = 8


def overflows(graph: Graph, held: Held, cycle: int) -> Iterator[Hazard]:
    """Yield one hazard for each operator that computed integers which its result's type does not hold.

    held  returns a tensor's values, None if no memory holds them: operators that read it are then not checked
    Casts of integers to integers are not checked: ONNX defines their wrapped results.
    """
    for node in graph.nodes:
        compute = _computation(node)
        if compute is None or node.domain:
            continue
        result = graph.tensors[node.outputs[0]]
        limits = _limits(result.dtype)
        if limits is None:
            continue
        operands = [graph.constants[t] if t in graph.constants else held(t) for t in node.inputs]
        known = [values for values in operands if values is not None]
        if len(known) == len(operands) and (text := _text(node, compute, known, limits)):
            what = f"{node.name or node.op_type} ({node.op_type}) {text} of {result.name}"
            yield hazard_of("overflow", cycle, "", -1, what, result.name)


def _computation(node: Node) -> Callable[[_Operands], np.ndarray] | None:
    """Return the function that an operator computes of its operands, None if it is not checked."""
    reduce = _REDUCED.get(node.op_type)
    if reduce is None or node.attributes.get("exclusive"):
        return _COMPUTED.get(node.op_type)

    def reduced(x: _Operands) -> np.ndarray:
        found = x[1].reshape(-1) if len(x) > 1 else node.attributes.get("axes", ())
        axes = tuple(int(axis) for axis in found)
        if not axes and node.attributes.get("noop_with_empty_axes"):
            return x[0]
        axis = axes[0] if node.op_type == "CumSum" else axes or None
        return np.asarray(reduce(x[0], axis=axis))

    return reduced


def _limits(dtype: str) -> np.iinfo | None:
    """Return the limits of an integer type, None if numpy has no such integer type."""
    try:
        return np.iinfo(dtype)
    except (TypeError, ValueError):
        return None


def _text(
    node: Node, compute: Callable[[_Operands], np.ndarray], operands: _Operands, limits: np.iinfo
) -> str:
    """Return a text about the elements that do not fit, "" if all do."""
    if node.op_type == "Cast" and operands[0].dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        try:
            wide = compute([each.astype(np.float64) for each in operands])
        except (TypeError, ValueError):
            return ""  # operands that are no numbers, or shapes that only the operator itself understands
        # Truncated towards zero: 127.9 is held.
        outside = ~((np.trunc(wide) >= limits.min) & (np.trunc(wide) <= limits.max))
        if limits.dtype.itemsize == _LONG_BYTES and node.op_type != "Cast":
            # A double cannot tell the largest integer from those just above; a wrapped result is far off.
            outside = np.abs(compute(operands).astype(np.float64) - wide) > limits.max / 2
    if not outside.any():
        return ""
    worst = wide[outside].reshape(-1)[0]
    count = int(outside.sum())
    return f"computed {worst:g}, which {limits.dtype} does not hold, in {count} of {wide.size} elements"
