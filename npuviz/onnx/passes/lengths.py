"""Removes the input with sequence lengths from recurrent operators, and shortens them to the lengths of one
run.

A chip's program executes a fixed number of steps. If all sequences of a batch have the same length in the
run, the operator gets only that many steps, and zeros are appended to its results, as the standard demands.
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import OF_A_RUN, Draft, declare_weight
from npuviz.onnx.inputs import Given
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.observation import Observed, observe
from npuviz.onnx.passes.contrib.writer import opset_of
from npuviz.onnx.shape_inference import fixed_shapes, run_inputs

RECURRENT = ("RNN", "GRU", "LSTM")
_LENGTHS = 4
"""Position of the lengths among the inputs."""
_SLICE_INPUT_OPSET = 10
"""The first operator set in which Slice has its bounds as inputs."""


def settle_lengths(draft: Draft, given: Given) -> bool:
    """Remove sequence lengths that are all equal in a run with these inputs from recurrent operators, in
    place.

    Returns whether anything changed; a model that cannot run stays as it is.
    """
    nodes = [node for node in draft.proto.graph.node if _has_lengths(node)]
    if not nodes:
        return False
    try:
        seen = _observed(draft, nodes, given)
    except FormatError:
        return False
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for node in nodes:
        held, states = draft.weights.get(node.input[_LENGTHS]), seen[node.output[_output(node)]].shape
        number = seen[node.input[_LENGTHS]].number if held is None else _only(held)
        shape = (*seen[node.input[0]].shape[:1], *states[-3:])
        if number is not None and 0 < number <= shape[0]:
            found[_name(node)] = number, shape
    if not found:
        return False
    made: list[NodeProto] = []
    for node in draft.proto.graph.node:
        made += _shortened(draft, node, *found[_name(node)]) if _name(node) in found else [node]
    replace_nodes(draft.proto.graph, made)
    draft.assumptions.append(f"sequence lengths of {len(found)} recurrent operators: those{OF_A_RUN}")
    return True


def _has_lengths(node: NodeProto) -> bool:
    is_recurrent = node.op_type in RECURRENT and node.domain in ("", "ai.onnx")
    is_usual = not any(item.name == "layout" and item.i for item in node.attribute)
    return is_recurrent and is_usual and len(node.input) > _LENGTHS and bool(node.input[_LENGTHS])


def _output(node: NodeProto) -> int:
    """Return the position of the first output that is not absent."""
    return next(place for place, name in enumerate(node.output) if name)


def _name(node: NodeProto) -> str:
    return node.output[_output(node)] if any(node.output) else ""


def _only(values: np.ndarray) -> int | None:
    """Return the number that all values equal, None if they differ or there are none."""
    return (
        int(values.reshape(-1)[0]) if values.size and bool(np.all(values == values.reshape(-1)[0])) else None
    )


def _observed(draft: Draft, nodes: list[NodeProto], given: Given) -> Mapping[str, Observed]:
    """Run the model, and return shapes and numbers of the operators' inputs, lengths and results.

    Raises FormatError if the run fails.
    """
    assumed = list(draft.assumptions)
    arrays = run_inputs(draft, fixed_shapes(draft), given)
    draft.assumptions[:] = assumed
    inputs = [value.name for value in draft.proto.graph.input if value.name not in draft.weights]
    fed = dict(zip(inputs, arrays, strict=True))
    known = {name: Observed(0, array.shape, _number(array)) for name, array in (fed | draft.weights).items()}
    wanted = [name for node in nodes for name in (node.input[0], node.input[_LENGTHS], _name(node))]
    rest = [name for name in dict.fromkeys(wanted) if name not in known]
    return known | observe(draft, rest, arrays, given.inputs.keys())


def _number(array: np.ndarray) -> int | None:
    return int(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "iu" else None


def _shortened(draft: Draft, node: NodeProto, steps: int, shape: tuple[int, ...]) -> list[NodeProto]:
    """Return the nodes that compute an operator with `steps` steps only.

    shape  all steps, directions, batch and hidden values of its results
    """
    # Passes that rewrite the operator prefix their constants with its name: use a distinct prefix.
    prefix = f"{node.name or _name(node)}/length"
    node.input[_LENGTHS] = ""
    if steps == shape[0]:
        return [node]
    cut = f"{prefix}/steps"
    bounds: dict[str, list[int]] = {"starts": [0], "ends": [steps], "axes": [0]}
    if opset_of(draft.proto) < _SLICE_INPUT_OPSET:
        before = helper.make_node("Slice", [node.input[0]], [cut], f"{prefix}/Slice")
        before.attribute.extend(helper.make_attribute(name, of) for name, of in bounds.items())
    else:
        names = [_constant(draft, f"{prefix}/{name}", np.array(of, np.int64)) for name, of in bounds.items()]
        before = helper.make_node("Slice", [node.input[0], *names], [cut], f"{prefix}/Slice")
    node.input[0] = cut
    whole = node.output[0]
    if not whole:
        return [before, node]
    node.output[0] = f"{prefix}/made"
    rest = np.zeros((shape[0] - steps, *shape[1:]), _dtype(draft, node))
    ends = [node.output[0], _constant(draft, f"{prefix}/zeros", rest)]
    return [before, node, helper.make_node("Concat", ends, [whole], f"{prefix}/Concat", axis=0)]


def _dtype(draft: Draft, node: NodeProto) -> np.dtype:
    held = draft.weights.get(node.input[1])
    return np.dtype(np.float32) if held is None else held.dtype


def _constant(draft: Draft, name: str, values: np.ndarray) -> str:
    declare_weight(draft.proto.graph, name, values)
    draft.weights[name] = values
    return name
