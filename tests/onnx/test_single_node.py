"""One node as the Host computes it: types that ONNX Runtime does not exchange, operators that it has not."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx import reference
from npuviz.onnx.reader import read_model
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from tests.onnx.cases import random, save, value

NARROW = ("int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz", "bfloat16")


def _element_type(name: str) -> int:
    return helper.np_dtype_to_tensor_dtype(numpy_dtype(name))


def _graph_of(folder: Path, node: onnx.NodeProto, inputs: list[int], output: int, opset: int = 25) -> Graph:
    infos = [
        helper.make_tensor_value_info(name, kind, [5]) for name, kind in zip(node.input, inputs, strict=True)
    ]
    made = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", output, [5])])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=12), path)
    return read_model(path, optimize=False)


def _result(graph: Graph, *values: np.ndarray) -> np.ndarray:
    (made,) = run_node(graph, graph.nodes[0], dict(zip(graph.inputs, values, strict=True))).values()
    return made


@pytest.mark.parametrize("dtype", NARROW)
def test_numbers_of_few_bits_go_in_and_out(tmp_path: Path, dtype: str) -> None:
    """ONNX Runtime packs those below 8 bits, and hands none of these out as an array."""
    kind, numbers = _element_type(dtype), np.array([0, 1, 2, 3, 1]).astype(numpy_dtype(dtype))
    read = _graph_of(tmp_path, helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT), [kind], 1)
    np.testing.assert_array_equal(_result(read, numbers), numbers.astype(np.float32))
    written = _graph_of(tmp_path, helper.make_node("Cast", ["x"], ["y"], to=kind), [1], kind)
    made = _result(written, numbers.astype(np.float32))
    assert made.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(made.astype(np.float32), numbers.astype(np.float32))


def test_infinity_of_eight_bits_stays_infinite(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    graph = _graph_of(tmp_path, node, [TensorProto.FLOAT8E5M2], 1)
    values = np.array([np.inf, -np.inf, 1, 0, -2]).astype(numpy_dtype("float8_e5m2"))
    np.testing.assert_array_equal(_result(graph, values), [np.inf, -np.inf, 1, 0, -2])


def test_what_the_runtime_has_not_the_evaluator_computes(tmp_path: Path) -> None:
    node = helper.make_node("BitShift", ["x", "n"], ["y"], direction="LEFT")
    graph = _graph_of(tmp_path, node, [TensorProto.UINT16] * 2, TensorProto.UINT16)
    made = _result(graph, np.array([1, 2, 3, 4, 5], np.uint16), np.array([1, 1, 2, 3, 0], np.uint16))
    assert made.dtype == np.uint16
    np.testing.assert_array_equal(made, [2, 4, 12, 32, 5])


def test_what_neither_computes_is_refused_as_the_runtime_does(tmp_path: Path) -> None:
    graph = _graph_of(tmp_path, helper.make_node("Relu", ["x"], ["y"]), [TensorProto.FLOAT], 1)
    with pytest.raises(FormatError, match="reference run"):
        _result(graph, np.zeros((5, 5), np.float32))


def test_a_node_of_a_newer_version_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler runs the same node for every column of a matrix."""
    converted: list[int] = []
    convert = reference.version_converter.convert_version

    def count(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
        converted.append(version)
        return convert(model, version)

    monkeypatch.setattr(reference.version_converter, "convert_version", count)
    node = helper.make_node("Neg", ["x"], ["y"])
    graph = _graph_of(tmp_path, node, [TensorProto.FLOAT], TensorProto.FLOAT, reference.RUNTIME_OPSET + 1)
    for values in np.eye(5, dtype=np.float32):
        assert np.array_equal(_result(graph, values), -values)
    assert converted == [reference.RUNTIME_OPSET]


@pytest.mark.parametrize("opset", [11, 16])
def test_an_empty_constant_beside_sizes_is_left_out(tmp_path: Path, opset: int) -> None:
    """TensorFlow's exporter gives Resize an empty constant for scales, and computes the sizes."""
    nodes = [
        helper.make_node("Add", ["half", "half"], ["sizes"], "double"),
        helper.make_node(
            "Resize",
            ["x", "none", "none", "sizes"],
            ["y"],
            "resize",
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        ),
    ]
    weights = {"half": np.array([1, 1, 3, 3]), "none": np.zeros(0, np.float32)}
    given, made = [value("x", [2, 2, 3, 3])], [value("y", [2, 2, 6, 6])]
    graph = read_model(save(tmp_path / "m.onnx", nodes, given, made, weights, opset=opset))
    (node,) = [each for each in graph.nodes if each.op_type == "Resize"]
    x = random(2, 2, 3, 3)
    arrays = {each: np.asarray(graph.constants[each]) for each in node.inputs if each in graph.constants}
    found = run_node(graph, node, {**arrays, node.inputs[0]: x})
    np.testing.assert_array_equal(found[node.outputs[0]], x.repeat(2, 2).repeat(2, 3))
