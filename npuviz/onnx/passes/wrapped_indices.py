"""Lets a Gather read the numbers that a model is given, where it only makes negative ones positive first.

Exporters write numbers of rows from the end as `where(i < 0, i + rows, i)`, in up to nine operators. Gather
takes such numbers itself.
"""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.passes.neighbours import Neighbours, Nodes, Shapes

MOST_NODES = 16
"""Most operators between the numbers and a Gather."""
MOST_ROWS = 1 << 20
"""Most rows for which the operators are run."""


def settle_indices(draft: Draft, shapes: Shapes) -> bool:
    """Give each Gather of a constant the numbers that operators only wrap, in place. Returns whether there
    was any.

    Numbers that reach more than once around the constant are errors then.

    shapes  element type and shape of every tensor
    """
    graph = Neighbours(draft, Nodes(draft))
    found = False
    for node in draft.proto.graph.node:
        if (
            node.op_type != "Gather"
            or node.domain not in ("", "ai.onnx")
            or node.input[0] not in draft.weights
        ):
            continue
        axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
        rows = draft.weights[node.input[0]].shape[axis]
        source = _wrapped(graph, shapes, node.input[1], rows) if 0 < rows <= MOST_ROWS else None
        if source is not None:
            node.input[1] = source
            found = True
    return found


def _wrapped(graph: Neighbours, shapes: Shapes, name: str, rows: int) -> str | None:
    """Return the tensor of numbers from which a tensor is made by wrapping negative ones; None if there is
    none."""
    expression = _Expression(graph)
    expression.read(name)
    if len(expression.leaves) != 1 or not 0 < len(expression.order) <= MOST_NODES:
        return None
    (source,) = expression.leaves
    kinds = [shapes.get(each, (0, ())) for each in (source, name)]
    if kinds[0][1] != kinds[1][1] or kinds[0][0] not in _INTEGERS:
        return None
    numbers = np.arange(-rows, rows).astype(helper.tensor_dtype_to_np_dtype(kinds[0][0]))
    made = expression.computed(source, numbers)
    if made.shape != numbers.shape or made.dtype.kind != "i":
        return None
    is_inside = bool(np.all((made >= -rows) & (made < rows)))
    return source if is_inside and np.array_equal(made % rows, np.arange(-rows, rows) % rows) else None


_INTEGERS = (6, 7)
"""int32 and int64 as ONNX numbers types."""


class _Expression:
    """Operators element by element behind a tensor, back to the tensors that they begin with.

    order  the operators, each after what it reads;  leaves  tensors that none of them makes
    """

    def __init__(self, graph: Neighbours) -> None:
        self._graph = graph
        self.order: list[NodeProto] = []
        self.leaves: set[str] = set()
        self._known: set[str] = set()

    def read(self, name: str) -> None:
        """Take up the operators that make a tensor."""
        if name in self._known or len(self.order) > MOST_NODES:
            return
        self._known.add(name)
        weight = self._graph.draft.weights.get(name)
        if weight is not None and weight.size == 1:
            return
        maker = self._graph.makers.get(name)
        if maker is None or maker.op_type not in _COMPUTED or maker.domain not in ("", "ai.onnx"):
            self.leaves.add(name)
            return
        for each in maker.input:
            self.read(each)
        self.order.append(maker)

    def computed(self, source: str, numbers: np.ndarray) -> np.ndarray:
        """Return what the last operator makes of numbers in the place of a leaf."""
        values = {source: numbers}
        weights = self._graph.draft.weights
        made = numbers
        for node in self.order:
            given = [values[name] if name in values else weights[name].reshape(()) for name in node.input]
            made = values[node.output[0]] = _COMPUTED[node.op_type](given, node)
        return made


def _cast(given: list[np.ndarray], node: NodeProto) -> np.ndarray:
    kind = next(item.i for item in node.attribute if item.name == "to")
    return given[0].astype(helper.tensor_dtype_to_np_dtype(kind))


def _plain(function: Callable[..., np.ndarray]) -> Callable[[list[np.ndarray], NodeProto], np.ndarray]:
    return lambda given, _: np.asarray(function(*given))


_COMPUTED: Mapping[str, Callable[[list[np.ndarray], NodeProto], np.ndarray]] = {
    "Cast": _cast,
    **{
        kind: _plain(function)
        for kind, function in {
            "Add": np.add, "And": np.logical_and, "Equal": np.equal, "Greater": np.greater,
            "GreaterOrEqual": np.greater_equal, "Identity": np.asarray, "Less": np.less,
            "LessOrEqual": np.less_equal, "Mul": np.multiply, "Not": np.logical_not, "Or": np.logical_or,
            "Sub": np.subtract, "Where": np.where,
        }.items()
    },
}  # fmt: skip
"""Operator -> what it computes of arrays."""
