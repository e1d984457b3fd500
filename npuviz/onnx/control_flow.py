"""Replaces control flow that depends on the inputs by the operators that one run executes.

A chip's program has neither branches nor loops over operators. So the model runs once in ONNX Runtime, and
the branches of `If` that this run takes and the iterations of `Loop` that it executes are written in place of
these operators, and the assumptions name them.
"""

from collections.abc import Mapping

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.base.names import echo
from npuviz.onnx.draft import OF_A_RUN, Draft, declare_weight
from npuviz.onnx.inputs import Given
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.observation import observe
from npuviz.onnx.passes.functions import bind_nodes
from npuviz.onnx.passes.unrolling import unroll_model
from npuviz.onnx.shape_inference import fixed_shapes, run_inputs


def decide(draft: Draft, given: Given) -> bool:
    """Replace the control flow of the main graph, in place, by the branches and iterations of a run with
    these inputs.

    Returns whether anything changed; a model that cannot run, or whose loops end by a computed condition,
    stays as it is.
    """
    deciders = [name for node in draft.proto.graph.node for name in _deciders(node)]
    unknown = [name for name in dict.fromkeys(deciders) if name not in draft.weights]
    if not deciders:
        return False
    numbers = {name: int(draft.weights[name].reshape(-1)[0]) for name in deciders if name in draft.weights}
    try:
        numbers.update(_observed(draft, unknown, given))
    except FormatError:
        return False
    is_new = _take_branches(draft, numbers)
    return _take_turns(draft, numbers) or is_new


def _deciders(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that control an If (condition) or Loop (trip count, condition); none for other
    operators."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("If", "Loop"):
        return []
    return [name for name in node.input[: 1 if node.op_type == "If" else 2] if name]


def _observed(draft: Draft, names: list[str], given: Given) -> dict[str, int]:
    """Run the model and return the value of each named tensor that is a single integer or bool.

    Raises FormatError if the run fails.
    """
    if not names:
        return {}
    assumed = list(draft.assumptions)
    shapes = fixed_shapes(draft)
    draft.assumptions[:] = assumed
    arrays = run_inputs(draft, shapes, given)
    inputs = [value.name for value in draft.proto.graph.input if value.name not in draft.weights]
    fed = dict(zip(inputs, arrays, strict=True))
    found = {name: int(fed[name].reshape(-1)[0]) for name in names if name in fed and fed[name].size == 1}
    rest = [name for name in names if name not in fed]
    seen = observe(draft, rest, arrays, given.inputs.keys()) if rest else {}
    return found | {name: each.number for name, each in seen.items() if each.number is not None}


def _take_branches(draft: Draft, numbers: Mapping[str, int]) -> bool:
    made: list[onnx.NodeProto] = []
    is_new = False
    for index, node in enumerate(draft.proto.graph.node):
        condition = numbers.get(node.input[0]) if node.op_type == "If" and _deciders(node) else None
        if condition is None:
            made.append(node)
            continue
        is_new = True
        name = node.name or f"If_{index}"
        branch = "then_branch" if condition else "else_branch"
        body = next(attribute.g for attribute in node.attribute if attribute.name == branch)
        made += _inlined(body, node, name)
        draft.assumptions.append(
            f"If {echo(name)}: its {branch}, which is that{OF_A_RUN}; give others with --input"
        )
    if is_new:
        replace_nodes(draft.proto.graph, made)
    return is_new


def _inlined(body: onnx.GraphProto, node: onnx.NodeProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes of a branch, with its results under the output names of the If."""
    names = {"": ""}
    made: list[onnx.NodeProto] = []
    for tensor in body.initializer:
        names[tensor.name] = f"{name}/{tensor.name}"
        made.append(
            onnx.helper.make_node("Constant", [], [names[tensor.name]], value=tensor, name=names[tensor.name])
        )
    made += bind_nodes(body.node, names, {}, name)
    for result, output in zip(body.output, node.output, strict=False):
        if output:
            source = names.get(result.name, result.name)
            made.append(onnx.helper.make_node("Identity", [source], [output], name=f"{name}/{output}"))
    return made


def _take_turns(draft: Draft, numbers: Mapping[str, int]) -> bool:
    known = {name: np.array(value) for name, value in numbers.items()}
    before = _count_loops(draft)
    made = unroll_model(draft.proto, {**known, **draft.weights})
    if not made:
        return False
    for name, array in made.items():
        declare_weight(draft.proto.graph, name, array)
    draft.weights.update(made)
    draft.assumptions.append(f"the turns of {before - _count_loops(draft)} loops: those{OF_A_RUN}")
    return True


def _count_loops(draft: Draft) -> int:
    return sum(node.op_type == "Loop" for node in draft.proto.graph.node)
