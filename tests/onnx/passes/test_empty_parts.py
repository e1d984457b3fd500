"""Parts of a Split without elements vanish where nobody reads them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph


def _saved(path: Path, sizes: list[int], results: list[int], opset: int) -> Path:
    """A Split of 8 columns; the results are the parts of these numbers."""
    names = [f"part{number}" for number in range(len(sizes))]
    split = helper.make_node("Split", ["x", *(["sizes"] if opset >= 13 else [])], names, axis=1)
    if opset < 13:
        split.attribute.append(helper.make_attribute("split", sizes))
    signs = [helper.make_node("Neg", [names[number]], [f"y{number}"]) for number in results]
    outputs = [helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, None) for number in results]
    weights = [numpy_helper.from_array(np.array(sizes), "sizes")] if opset >= 13 else []
    # The reader changes only graphs that have something to simplify.
    same = helper.make_node("Identity", ["given"], ["x"])
    inputs = [helper.make_tensor_value_info("given", TensorProto.FLOAT, [3, 8])]
    graph = helper.make_graph([same, split, *signs], "parts", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def _kinds(graph: Graph) -> list[str]:
    return sorted(node.op_type for node in graph.nodes)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize(
    ("sizes", "results", "kinds"),
    [
        ([8, 0], [0], ["Neg"]),
        ([0, 8], [1], ["Neg"]),
        ([3, 0, 5], [0, 2], ["Neg", "Neg", "Split"]),
        ([8, 0], [0, 1], ["Neg", "Neg", "Split"]),
        ([5, 3], [0], ["Neg", "Split"]),
    ],
)
def test_parts_that_nobody_reads(
    tmp_path: Path, opset: int, sizes: list[int], results: list[int], kinds: list[str]
) -> None:
    path = _saved(tmp_path / "parts.onnx", sizes, results, opset)
    graph = read_model(path)
    assert _kinds(graph) == kinds
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    known = [tuple(value.shape) for value in session.get_outputs()]
    assert [graph.tensors[tensor].shape for tensor in graph.outputs] == known
    for node in graph.nodes:
        if node.op_type == "Split":
            parts = [graph.tensors[tensor].shape[1] for tensor in node.outputs]
            held = graph.constants[node.inputs[1]].tolist() if opset >= 13 else node.attributes["split"]
            assert held == parts
            assert 0 not in parts or 1 in results
