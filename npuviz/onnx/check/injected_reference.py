"""Runs the reference with errors added to some of its tensors."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from npuviz.onnx.check.records import float_deviation
from npuviz.onnx.reference import ReferenceSession
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph


class InjectedReference:
    """A graph in ONNX Runtime in which all readers of chosen tensors read the tensor plus an error.

    tensors  that may get errors: inputs, constants and computed ones, of float types
    read     tensors to return in addition to the graph's outputs
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, np.ndarray],
        tensors: Sequence[int],
        read: Sequence[int] = (),
    ) -> None:
        self._inputs = inputs
        self._kinds = {tensor: numpy_dtype(graph.tensors[tensor].dtype) for tensor in tensors}
        self._names = {tensor: f"npuviz_error_{tensor}" for tensor in tensors}
        wanted = (*graph.outputs, *read)
        self._session = ReferenceSession(graph, wanted, lambda model: self._insert(graph, model))

    def _insert(self, graph: Graph, model: onnx.ModelProto) -> None:
        made = {graph.tensors[tensor].name: tensor for tensor in self._names}
        given = {name: tensor for name, tensor in made.items() if graph.tensors[tensor].producer < 0}
        nodes = [self._adding(tensor, name, f"{name}__npuviz_wrong") for name, tensor in given.items()]
        renamed = {name: f"{name}__npuviz_wrong" for name in given}
        for node in model.graph.node:
            _rename_inputs(node, renamed)
            nodes.append(node)
            for place, name in enumerate(node.output):
                if name in made and name not in given:
                    node.output[place] = f"{name}__npuviz_right"
                    nodes.append(self._adding(made[name], node.output[place], name))
        for tensor, name in self._names.items():
            kind = helper.np_dtype_to_tensor_dtype(self._kinds[tensor])
            model.graph.input.append(helper.make_tensor_value_info(name, kind, None))
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    def _adding(self, tensor: int, source: str, to: str) -> onnx.NodeProto:
        return helper.make_node("Add", [source, self._names[tensor]], [to])

    def run(self, errors: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """Run with these errors added (tensor -> error). Returns the outputs, then the tensors of `read`."""
        zero = np.zeros(())
        with np.errstate(over="ignore"):
            given = {
                name: np.asarray(errors.get(tensor, zero)).astype(self._kinds[tensor])
                for tensor, name in self._names.items()
            }
        return self._session.run({**self._inputs, **given})


def _rename_inputs(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Rename the inputs of a node, and the outer names that its subgraphs read."""
    for place, name in enumerate(node.input):
        node.input[place] = renamed.get(name, name)
    for attribute in node.attribute:
        for body in (
            (attribute.g, *attribute.graphs) if attribute.type in (attribute.GRAPH, attribute.GRAPHS) else ()
        ):
            hidden = {value.name for value in (*body.input, *body.initializer)}
            left = {name: other for name, other in renamed.items() if name not in hidden}
            for inner in body.node:
                _rename_inputs(inner, left)


def outputs_error(found: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> float:
    """Return the largest error of outputs of numbers, as a share of the output's largest magnitude; infinite
    if an output has become infinite or NaN."""
    shares = [
        float_deviation(a.reshape(-1), b.reshape(-1), 0.0)
        for a, b in zip(found, exact, strict=True)
        if a.dtype.kind in "fiu" and a.size == b.size
    ]
    return max((float("inf") if each.is_lost else each.relative for each in shares), default=0.0)
