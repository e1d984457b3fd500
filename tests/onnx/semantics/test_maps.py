"""Classifiers that put out maps from classes to numbers: the numbers are computed."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.check.file_outputs import outputs_of_file
from npuviz.onnx.reader import read_model

FLOATS = TensorProto.FLOAT


def classifier(path: Path, *, reads_map: bool = False) -> Path:
    """Softmax of what comes in, as a map whose classes are not in the order of their names."""
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOATS, []))
    )
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], axis=-1),
        helper.make_node(
            "ZipMap", ["p"], ["y"], domain="ai.onnx.ml", name="zip", classlabels_strings=["b", "a", "c"]
        ),
    ]
    if reads_map:
        nodes.append(helper.make_node("SequenceLength", ["y"], ["n"]))
    outputs = [helper.make_value_info("y", kind)]
    outputs += [helper.make_tensor_value_info("n", TensorProto.INT64, [])] if reads_map else []
    graph = helper.make_graph(nodes, "classes", [helper.make_tensor_value_info("x", FLOATS, [2, 3])], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_numbers_of_a_map_are_the_output_and_the_files_in_their_order(tmp_path: Path) -> None:
    graph = read_model(classifier(tmp_path / "m.onnx"))
    assert [node.op_type for node in graph.nodes] == ["Softmax"]
    (output,) = [graph.tensors[index] for index in graph.outputs]
    assert (output.name, output.shape, output.dtype) == ("y", (2, 3), "float32")
    assert any("output y is a map from classes to numbers" in text for text in graph.assumptions)
    x = np.array([[1, 2, 4], [0, 3, 0]], np.float32)
    (values,) = outputs_of_file(graph, {"x": x}).values()
    np.testing.assert_allclose(values, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)


def test_other_maps_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = classifier(tmp_path / "m.onnx", reads_map=True)
    with pytest.raises(FormatError, match=r"output y: expected tensors, .* found a map .*zipmap"):
        read_model(path)
