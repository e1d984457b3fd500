"""Unrolls loops with a known number of iterations: Scan, and Loop whose count is constant or can be computed.

A chip's program has no loops over operators, and operators inside of a loop could be neither placed nor
compared with the reference.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper

from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.passes.functions import bind_nodes
from npuviz.onnx.passes.turns import turns_of

MAX_TURNS = 64
MAX_NODES = 4096
LOOPS = frozenset(("Scan", "Loop"))
# From here on, Unsqueeze has its axes as an input.
_UNSQUEEZE_INPUT_OPSET = 13
# Scan of version 8 has a batch axis.
_SCAN_OPSET = 9

ShapeOf = Callable[[str], tuple[int, ...] | None]
ValueOf = Callable[[str], np.ndarray | None]


class _Unrolled:
    """The nodes of an unrolled loop under construction.

    weights  constants that the nodes read, by name
    """

    def __init__(self, node: NodeProto, opset: int) -> None:
        self.name = node.name
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self._opset = opset

    def constant(self, name: str, value: Any) -> str:
        """Store a constant of the unrolled loop. Returns its full name."""
        full = f"{self.name}/{name}"
        self.weights[full] = np.asarray(value, np.int64)
        return full

    def add(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node. Returns the name of its output."""
        name = f"{self.name}/{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def turn(self, body: GraphProto, values: Mapping[str, str], number: int | str) -> list[str]:
        """Add one iteration of the body. Returns the names of its outputs. values  body input -> tensor"""
        prefix = f"{self.name}/{number}"
        names = {"": "", **values}
        for tensor in body.initializer:
            names[tensor.name] = f"{prefix}/{tensor.name}"
            made = helper.make_node(
                "Constant", [], [names[tensor.name]], value=tensor, name=names[tensor.name]
            )
            self.nodes.append(made)
        self.nodes += bind_nodes(body.node, names, {}, prefix)
        return [names.get(value.name, value.name) for value in body.output]

    def stack(self, parts: list[str], output: str, axis: int) -> None:
        """Stack tensors along a new axis."""
        at = self.constant("axis", [axis])
        made: list[str] = []
        for part in parts:
            name = f"{self.name}/part_{len(self.nodes)}"
            if self._opset >= _UNSQUEEZE_INPUT_OPSET:
                made.append(self.add("Unsqueeze", [part, at], name))
            else:
                made.append(self.add("Unsqueeze", [part], name, axes=[axis]))
        self.add("Concat", made, output, axis=axis)


def unroll(
    node: NodeProto, opset: int, shape_of: ShapeOf, value_of: ValueOf
) -> tuple[list[NodeProto], dict[str, np.ndarray]] | None:
    """Return the nodes of an unrolled loop and the constants they read; None if it cannot be unrolled.

    shape_of, value_of  shape and constant value of a tensor of the model, None if unknown
    """
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    body: GraphProto = attributes["body"]
    made = _Unrolled(node, opset)
    if node.op_type == "Scan" and opset >= _SCAN_OPSET:
        done = _scan(made, node, body, attributes, shape_of)
    elif node.op_type == "Scan":
        done = _scan_of_batches(made, node, body, attributes, shape_of)
    elif node.op_type == "Loop":
        done = _loop(made, node, body, turns_of(node, body, opset, MAX_TURNS, value_of))
    else:
        done = False
    return (made.nodes, made.weights) if done else None


def _scan(
    made: _Unrolled, node: NodeProto, body: GraphProto, attributes: Mapping[str, Any], shape_of: ShapeOf
) -> bool:
    scanned = int(attributes["num_scan_inputs"])
    states = list(node.input[: len(node.input) - scanned])
    sources = list(node.input[len(states) :])
    shape = shape_of(sources[0])
    if not shape:
        return False
    axes = list(attributes.get("scan_input_axes") or [0] * scanned)
    first = axes[0] + len(shape) if axes[0] < 0 else axes[0]
    turns = shape[first]
    if not _is_small(turns, body):
        return False
    directions = list(attributes.get("scan_input_directions") or [0] * scanned)
    num_outputs = len(node.output) - len(states)
    parts: list[list[str]] = [[] for _ in range(num_outputs)]
    inputs = [value.name for value in body.input]
    for number in range(turns):
        values = dict(zip(inputs, states, strict=False))
        for index, source in enumerate(sources):
            at = turns - 1 - number if directions[index] else number
            place = made.constant(f"place{at}", at)
            name = f"{made.name}/{number}/{inputs[len(states) + index]}"
            values[inputs[len(states) + index]] = made.add("Gather", [source, place], name, axis=axes[index])
        results = made.turn(body, values, number)
        states = results[: len(states)]
        for index, result in enumerate(results[len(states) :]):
            parts[index].append(result)
    out_axes = list(attributes.get("scan_output_axes") or [0] * num_outputs)
    backwards = list(attributes.get("scan_output_directions") or [0] * num_outputs)
    _finish(made, node, states, parts, out_axes, backwards)
    return True


def _scan_of_batches(
    made: _Unrolled, node: NodeProto, body: GraphProto, attributes: Mapping[str, Any], shape_of: ShapeOf
) -> bool:
    """Unroll a Scan of version 8, whose tensors have a batch axis first, then that of the turns."""
    scanned = int(attributes["num_scan_inputs"])
    given = list(node.input[1:])
    shape = shape_of(given[-1])
    # The first input gives each batch a length of its own.
    if node.input[0] or shape is None or len(shape) < 2 or not 1 <= shape[0] <= MAX_TURNS:
        return False
    batches, turns = shape[:2]
    if not _is_small(batches * turns, body):
        return False
    directions = list(attributes.get("directions") or [0] * scanned)
    inputs = [value.name for value in body.input]
    num_states = len(given) - scanned
    parts: list[list[str]] = [[] for _ in node.output]
    for batch in range(batches):
        place = made.constant(f"place{batch}", batch)
        own = [
            made.add("Gather", [name, place], f"{made.name}/batch{batch}/{inputs[index]}", axis=0)
            for index, name in enumerate(given)
        ]
        states, rows = own[:num_states], list[list[str]]()
        for number in range(turns):
            values = dict(zip(inputs, states, strict=False))
            for index, source in enumerate(own[num_states:]):
                at = turns - 1 - number if directions[index] else number
                name = f"{made.name}/{batch}.{number}/{inputs[num_states + index]}"
                values[inputs[num_states + index]] = made.add(
                    "Gather", [source, made.constant(f"place{at}", at)], name, axis=0
                )
            results = made.turn(body, values, f"{batch}.{number}")
            states = results[:num_states]
            rows.append(results[num_states:])
        stacked = [f"{made.name}/batch{batch}/stacked{index}" for index in range(len(rows[0]))]
        for index, name in enumerate(stacked):
            made.stack([row[index] for row in rows], name, 0)
        for part, name in zip(parts, [*states, *stacked], strict=False):
            part.append(name)
    for part, output in zip(parts, node.output, strict=True):
        if output:
            made.stack(part, output, 0)
    return True


def _loop(made: _Unrolled, node: NodeProto, body: GraphProto, turns: int | None) -> bool:
    if turns is None or not _is_small(turns, body):
        return False
    states = list(node.input[2:])
    inputs = [value.name for value in body.input]
    num_outputs = len(node.output) - len(states)
    parts: list[list[str]] = [[] for _ in range(num_outputs)]
    always = f"{made.name}/condition"
    made.weights[always] = np.array(True)
    for number in range(turns):
        values = {inputs[0]: made.constant(f"turn{number}", number), inputs[1]: always}
        values.update(zip(inputs[2:], states, strict=False))
        results = made.turn(body, values, number)[1:]
        states = results[: len(states)]
        for index, result in enumerate(results[len(states) :]):
            parts[index].append(result)
    _finish(made, node, states, parts, [0] * num_outputs, [0] * num_outputs)
    return True


def _is_small(turns: int, body: GraphProto) -> bool:
    return 1 <= turns <= MAX_TURNS and turns * len(body.node) <= MAX_NODES


def _finish(
    made: _Unrolled,
    node: NodeProto,
    states: list[str],
    parts: list[list[str]],
    axes: list[int],
    backwards: list[int],
) -> None:
    for state, output in zip(states, node.output, strict=False):
        if output:
            made.add("Identity", [state], output)
    for index, output in enumerate(node.output[len(states) :]):
        if output:
            ordered = list(reversed(parts[index])) if backwards[index] else parts[index]
            made.stack(ordered, output, int(axes[index]))


def unroll_model(model: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Unroll the loops of a model's main graph with a known number of iterations, in place.

    Returns the constants that the new nodes read; empty if nothing changed.
    """
    graph = model.graph
    if not any(node.op_type in LOOPS for node in graph.node):
        return {}
    opset = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes: dict[str, tuple[int, ...]] = {name: array.shape for name, array in weights.items()}
    for value in (*inferred.value_info, *inferred.input, *inferred.output):
        tensor = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
        if value.type.HasField("tensor_type") and tensor.HasField("shape") and min(dims, default=0) >= 0:
            shapes[value.name] = tuple(dims)
    made: list[NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for index, node in enumerate(graph.node):
        done = None
        if node.op_type in LOOPS and node.domain in ("", "ai.onnx"):
            named = NodeProto()
            named.CopyFrom(node)
            named.name = node.name or f"{node.op_type}_{index}"
            done = unroll(named, opset, shapes.get, weights.get)
        if done is None:
            made.append(node)
        else:
            made += done[0]
            constants.update(done[1])
    if constants:
        replace_nodes(graph, made)
    return constants
