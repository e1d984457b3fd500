"""What Sigmoid and Softmax make of an error that their input may have.

Where they level off, their result is tiny, and its relative error is as large as the absolute error of their
input: exp(-9) is off by half if -9 is off by 5 %. A network whose logits are right is right with a Sigmoid
behind them, too, so that the result may be off by what the allowed error of the input makes.
"""

from collections.abc import Callable, Sequence

import numpy as np

from npuviz.onnx.check.growth import LARGEST_SHARE, Allowed, magnitude
from npuviz.program.graph import Graph

_VIEWS = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
References = Callable[[int], np.ndarray]


def saturated_errors(
    graph: Graph, tensor: int, references: References, allowed: Sequence[Allowed]
) -> np.ndarray | float:
    """Absolute errors (flat float64, an element each) that a tensor may have if a Sigmoid or Softmax made it,
    at most LARGEST_SHARE of their range; else the error of the activation table that made it, or 0.

    references  values of a tensor
    """
    made = _origin(graph, tensor, references)
    table = allowed[made].absolute
    node = graph.nodes[graph.tensors[made].producer] if graph.tensors[made].producer >= 0 else None
    if node is None or node.op_type not in ("Sigmoid", "Softmax"):
        return table
    before = allowed[node.inputs[0]]
    values = np.asarray(references(node.inputs[0]), np.float64)
    if not before.share or not np.isfinite(values).all():
        return table
    error = before.share * magnitude(values.reshape(-1))
    # Beyond 50 the functions change by all that a double holds.
    grown = np.exp(min(error, 50.0))
    results = np.asarray(references(made), np.float64).reshape(-1)
    if node.op_type == "Softmax":
        # An element's own logit rises while all others fall.
        grown = grown * grown
    # With the odds p / (1 - p) that much larger: the other direction changes less where p is below a half.
    more = results * grown / (1.0 - results + results * grown) - results
    less = results - results / (results + (1.0 - results) * grown)
    return np.maximum(np.minimum(np.maximum(more, less), LARGEST_SHARE), table)


def _origin(graph: Graph, tensor: int, references: References) -> int:
    """The tensor whose elements a tensor holds in the same order, behind views and Ifs that hand one on."""
    while graph.tensors[tensor].producer >= 0:
        node = graph.nodes[graph.tensors[tensor].producer]
        if node.op_type in _VIEWS:
            tensor = node.inputs[0]
        elif node.op_type == "If":
            handed = next((each for each in node.inputs[1:] if _is_same(each, tensor, references)), -1)
            if handed < 0:
                return tensor
            tensor = handed
        else:
            return tensor
    return tensor


def _is_same(one: int, other: int, references: References) -> bool:
    first, second = references(one), references(other)
    return first.dtype == second.dtype and np.array_equal(first.reshape(-1), second.reshape(-1))
