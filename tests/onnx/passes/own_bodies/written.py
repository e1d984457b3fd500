"""Single operators, written as their bodies and run in ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from npuviz.onnx.passes.missing import expand_missing
from npuviz.onnx.passes.optimization import KEEP_NODES
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

Array = np.ndarray


def model_of(
    op_type: str,
    inputs: Mapping[str, Array],
    result: Array,
    *,
    domain: str = "",
    opset: int = 18,
    stored: Mapping[str, Array] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one operator that is read as it is. result  has the shape and type of y"""
    described = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in {**inputs, "y": result}.items()
    }
    names = [*inputs, *(stored or {})]
    node = helper.make_node(op_type, names, ["y"], "op", domain=domain, **attributes)
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in (stored or {}).items()]
    graph = helper.make_graph(
        [node], "case", [described[name] for name in inputs], [described["y"]], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=10)
    model.metadata_props.add(key=KEEP_NODES[0], value=KEEP_NODES[1])
    return model


def expanded(model: onnx.ModelProto, folder: Path, is_precise: bool = True) -> Graph:
    """The graph in which the operator has become its body, if there is one."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    return expand_missing(read_model(path), lambda node: "/" in node.name, is_precise)


def result_of(graph: Graph, inputs: Mapping[str, Array]) -> Array:
    """The result y of an expanded graph."""
    assert all(node.name != "op" for node in graph.nodes)
    (found,) = run_reference(graph, inputs, graph.outputs).values()
    return found
