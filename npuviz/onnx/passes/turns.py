"""Computes the number of iterations of a Loop: a constant trip count, or a condition on a few known numbers.

Exporters write `while i < n` as a condition that the body computes in each iteration. If everything that it
depends on is known before the first iteration, it is evaluated here, one iteration after the other.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

MAX_NODES = 64
_OF_NUMBERS = frozenset(
    ("Abs", "Add", "And", "Cast", "Ceil", "Constant", "Div", "Equal", "Floor", "Greater", "GreaterOrEqual",
     "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Reshape", "Squeeze",
     "Sub", "Unsqueeze", "Where", "Xor")
)  # fmt: skip
"""Deterministic operators that compute a single number from single numbers."""

ValueOf = Callable[[str], np.ndarray | None]


def turns_of(node: NodeProto, body: GraphProto, opset: int, most: int, value_of: ValueOf) -> int | None:
    """Return the number of iterations of a Loop; None if it depends on data or is more than `most`.

    value_of  constant value of a tensor outside of the loop, None if unknown
    """
    count = value_of(node.input[0]) if node.input and node.input[0] else None
    if count is None and node.input and node.input[0]:
        return None
    begins = value_of(node.input[1]) if len(node.input) > 1 and node.input[1] else np.True_
    if begins is None:
        return None
    limit = None if count is None else max(0, int(np.asarray(count).reshape(-1)[0]))
    if not bool(np.all(begins)):
        return 0
    if limit is not None and _goes_on(body):
        return limit if limit <= most else None
    condition = _condition_of(node, body, opset, value_of)
    try:
        with np.errstate(all="raise"):
            return None if condition is None else _counted(condition, limit, most)
    except Exception:  # the evaluator raises various exceptions for types that do not fit
        return None


def _counted(condition: "_Condition", limit: int | None, most: int) -> int | None:
    """Count iterations up to the limit, or until the condition ends them; None if there are more than
    `most`."""
    for turn in range(most):
        if turn == limit:
            return turn
        if not condition.after(turn):
            return turn + 1
    return most if limit == most else None


class _Condition:
    """The part of a body that computes its condition, and the states of that part before the next
    iteration."""

    def __init__(
        self, part: onnx.ModelProto, states: dict[str, np.ndarray], updates: Mapping[str, str]
    ) -> None:
        self._names = [value.name for value in part.graph.output]
        self._run = ReferenceEvaluator(part)
        self._given = {value.name for value in part.graph.input}
        self._states = states
        self._updates = updates

    def after(self, turn: int) -> bool:
        """Return whether the loop continues after an iteration; must be called for each iteration in
        order."""
        numbers = {_TURN: np.array(turn, np.int64), _GOES_ON: np.array(True)}
        known = {**self._states, **numbers}
        given = {name: value for name, value in known.items() if name in self._given}
        made = dict(zip(self._names, self._run.run(None, given), strict=True))
        self._states = {state: np.asarray(made[update]) for state, update in self._updates.items()}
        return bool(np.all(made[self._names[0]]))


_TURN, _GOES_ON = "npuviz/turn", "npuviz/goes_on"


def _condition_of(node: NodeProto, body: GraphProto, opset: int, value_of: ValueOf) -> _Condition | None:
    """Return the condition of a loop; None if it depends on more than known numbers."""
    inputs = [value.name for value in body.input]
    updates = {name: body.output[1 + place].name for place, name in enumerate(inputs[2:])}
    nodes, read = _cone(body, {body.output[0].name}, updates)
    if len(nodes) > MAX_NODES or not all(map(_is_of_numbers, nodes)):
        return None
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
    outside = dict(zip(inputs[2:], node.input[2:], strict=False))
    states: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    made = {name for each in nodes for name in each.output}
    for name in sorted(read - made - set(inputs[:2])):
        value = stored.get(name) if name in stored else value_of(outside.get(name, name))
        # Single elements only: shapes and axes with more elements are refused.
        if value is None or value.size > 1 or value.dtype.hasobject:
            return None
        (states if name in outside else constants)[name] = value
    carried = {name: updates[name] for name in states}
    part = _part(nodes, inputs, states, constants, [body.output[0].name, *carried.values()])
    return _Condition(_model(part, opset), states, carried)


def _is_of_numbers(node: NodeProto) -> bool:
    """Return whether a node computes a single number from single numbers."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _OF_NUMBERS:
        return False
    if node.op_type != "Constant":
        return True
    return all(
        math.prod(item.t.dims) <= 1 and len(item.ints) + len(item.floats) <= 1 for item in node.attribute
    )


def _cone(body: GraphProto, wanted: set[str], updates: Mapping[str, str]) -> tuple[list[NodeProto], set[str]]:
    """Return the nodes of a body that tensors depend on, in this or an earlier iteration, and all names they
    read."""
    makers = {name: node for node in body.node for name in node.output if name}
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [read for read in makers[name].input if read] if name in makers else []
        waiting += [updates[name]] if name in updates else []
    return [node for node in body.node if not found.isdisjoint(node.output)], found


def _part(
    nodes: Iterable[NodeProto],
    inputs: list[str],
    states: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    outputs: Iterable[str],
) -> GraphProto:
    """Make a graph of nodes of a body whose inputs are the iteration number, the condition and the states."""
    renamed = {inputs[0]: _TURN, inputs[1]: _GOES_ON}
    copies: list[NodeProto] = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [renamed.get(name, name) for name in node.input]
        copies.append(copy)
    given = [
        helper.make_tensor_value_info(_TURN, onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info(_GOES_ON, onnx.TensorProto.BOOL, []),
        *(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in states.items()
        ),
    ]
    unique = list(dict.fromkeys(renamed.get(name, name) for name in outputs))
    made = [helper.make_empty_tensor_value_info(name) for name in unique]
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    return helper.make_graph(copies, "condition", given, made, weights)


def _model(graph: GraphProto, opset: int) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _goes_on(body: GraphProto) -> bool:
    """Return whether a body returns the condition it was given, or constant true."""
    name, given = body.output[0].name, body.input[1].name
    if name == given:
        return True
    for node in body.node:
        if name in node.output:
            if node.op_type == "Identity":
                name = node.input[0]
                return name == given or _is_true(body, name)
            return node.op_type == "Constant" and _is_true(body, name)
    return _is_true(body, name)


def _is_true(body: GraphProto, name: str) -> bool:
    for tensor in body.initializer:
        if tensor.name == name:
            return bool(numpy_helper.to_array(tensor).all())
    for node in body.node:
        if name in node.output and node.op_type == "Constant":
            return any(
                bool(numpy_helper.to_array(item.t).all()) for item in node.attribute if item.name == "value"
            )
    return False
