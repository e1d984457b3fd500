"""Computes the errors that Sigmoid and Softmax may have because of the allowed error of their input.

Where they saturate, the result is tiny, and its relative error is as large as the absolute error of the
input: exp(-9) is off by half if -9 is off by 5 %. If the logits are within their tolerance, a Sigmoid behind
them must pass too, so that its result may have the error that the allowed error of the input causes.
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
    """Return the allowed absolute error of each element (flat float64) of a tensor that a Sigmoid or Softmax
    made, at most LARGEST_SHARE; for other tensors the error of the activation table that made them, or 0.

    references  tensor -> its reference values
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
    # Limited to 50, so that exp does not overflow: the functions have reached their limits by then.
    grown = np.exp(min(error, 50.0))
    results = np.asarray(references(made), np.float64).reshape(-1)
    if node.op_type == "Softmax":
        # An element's own logit rises while all others fall.
        grown = grown * grown
    # The result if the odds p / (1 - p) grow, and if they shrink, by this factor.
    more = results * grown / (1.0 - results + results * grown) - results
    less = results - results / (results + (1.0 - results) * grown)
    return np.maximum(np.minimum(np.maximum(more, less), LARGEST_SHARE), table)


def _origin(graph: Graph, tensor: int, references: References) -> int:
    """Return the tensor that a tensor's elements come from unchanged and in order, through views and Ifs."""
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
