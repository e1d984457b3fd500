"""A machine for tests of the comparison: it runs a model in ONNX Runtime, but rounds and spoils as told."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from npuviz.onnx.check.comparison import Comparison
from npuviz.onnx.check.errors import Tolerance, float_errors, integer_errors
from npuviz.onnx.check.growth import Precision
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.references import References
from npuviz.onnx.reader import read_model
from npuviz.onnx.semantics.operators import computed_tensors
from npuviz.onnx.single_node import run_node
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult

Change = Callable[[np.ndarray], np.ndarray]


def make_graph(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, int],
    weights: Mapping[str, np.ndarray] | None = None,
    integers: Collection[str] = (),
) -> Graph:
    """A model of float inputs (but for those that are `integers`) and outputs of the given element types."""
    kinds = {name: onnx.TensorProto.INT64 if name in integers else onnx.TensorProto.FLOAT for name in inputs}
    proto = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return read_model(path, optimize=False)


def checked(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    dtype: str = "float32",
    changes: Mapping[str, Change] | None = None,
    tolerance: Tolerance | None = None,
    fused: Collection[str] = (),
) -> CheckResult:
    """Run and check. Floats are held in `dtype` (float16 or float32); changes  tensor -> what spoils it;
    fused  tensors that no memory holds in the end."""
    held: dict[int, np.ndarray] = {index: inputs[graph.tensors[index].name] for index in graph.inputs}
    held.update(graph.constants)
    kind = np.dtype(dtype)
    for node in graph.nodes:
        made = run_node(graph, node, {index: held[index] for index in node.inputs if index >= 0})
        for index, values in made.items():
            change = (changes or {}).get(graph.tensors[index].name)
            values = values if change is None else change(values)
            if values.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    values = values.astype(kind).astype(np.float32)
            held[index] = values
    tensors = [index for index in computed_tensors(graph) if graph.tensors[index].name not in fused]
    held = {index: values for index, values in held.items() if graph.tensors[index].name not in fused}
    unit = {"float16": 2.0**-10, "float32": 2.0**-23}[dtype]
    allowed = tolerance or Tolerance(unit, unit)

    def type_of(tensor: int) -> str:
        return dtype if graph.tensors[tensor].dtype.startswith("float") else ""

    comparison = Comparison(
        graph,
        References(graph, inputs, computed_tensors(graph)),
        OwnInputs(graph, held.get),
        Precision(type_of),
    )
    for tensor in tensors:
        is_float = bool(type_of(tensor))

        def rule(found, expected, is_float=is_float):
            if not is_float:
                return integer_errors(found, expected, 0, "integers exactly")
            limit = float(np.finfo(kind).max)
            found, expected = (np.clip(each.astype(np.float64), -limit, limit) for each in (found, expected))
            return float_errors(found, expected, allowed, dtype)

        comparison.compare(tensor, held[tensor], rule)
    return comparison.result("")
