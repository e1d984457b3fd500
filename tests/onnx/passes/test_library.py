# What the libraries' passes must not do to a model.
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

FLOAT = onnx.TensorProto.FLOAT


def _read(folder: Path, graph: onnx.GraphProto, opset: int = 17, given: Given | None = None) -> Graph:
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return read_model(path, given=given)


def _info(name: str, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


@pytest.mark.parametrize("pairs", [1, 3])
def test_siblings_keep_names_of_their_own(tmp_path, pairs: int) -> None:
    """Nodes of one type with the same inputs: what a pass makes of one is not called like another."""
    nodes = [helper.make_node("Identity", ["x"], ["same"], "same")]
    for number in range(pairs):
        nodes += [
            helper.make_node("Slice", ["x", "begin", f"end{number}"], [f"cut{number}"], f"cut_{number}"),
            helper.make_node("Conv", ["same", "w"], [f"c{number}"], f"conv_{number}"),
            helper.make_node(
                "BatchNormalization",
                [f"c{number}", "one", f"b{number}", "one", "one"],
                [f"n{number}"],
                f"norm_{number}",
            ),
        ]
    outputs = [_info(f"{kind}{number}") for number in range(pairs) for kind in ("cut", "n")]
    ones = np.ones(2, np.float32)
    initial = [
        numpy_helper.from_array(np.array([0, 0]), "begin"),
        numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w"),
        numpy_helper.from_array(ones, "one"),
    ]
    for number in range(pairs):
        initial.append(numpy_helper.from_array(np.array([1, number + 1]), f"end{number}"))
        initial.append(numpy_helper.from_array(ones * number, f"b{number}"))
    graph = _read(tmp_path, helper.make_graph(nodes, "g", [_info("x", [1, 2, 4, 4])], outputs, initial))
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names)
    assert {f"cut_{number}" for number in range(pairs)} <= set(names)
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
    found = run_reference(graph, {"x": x}, graph.outputs)
    cuts = [values for index, values in found.items() if graph.tensors[index].name.startswith("cut")]
    assert [cut.shape[1] for cut in cuts] == [min(2, number + 1) for number in range(pairs)]


@pytest.mark.parametrize("shared", [False, True])
def test_identities_of_branches_stay_where_they_give_outer_values(tmp_path, shared: bool) -> None:
    def branch(name: str, of: str) -> onnx.GraphProto:
        nodes = [helper.make_node("Identity", [of], [f"{name}_y"], f"{name}_identity")]
        return helper.make_graph(nodes, name, [], [_info(f"{name}_y", [4])])

    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "abs"),
        helper.make_node("Neg", ["x"], ["n"], "neg"),
        helper.make_node("ReduceSum", ["x"], ["s"], "sum", keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"], "test"),
        helper.make_node(
            "If", ["c"], ["y"], "choice",
            then_branch=branch("then", "a"), else_branch=branch("else", "a" if shared else "n"),
        ),
    ]  # fmt: skip
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    outputs = [_info("y", [4]), _info("a", [4])]
    whole = helper.make_graph(nodes, "g", [_info("x", [4])], outputs, [zero])
    for sign in (1, -1):
        x = np.array([1, 2, -3, 4], np.float32) * sign
        graph = _read(tmp_path, whole, given=Given({"x": x}))
        found = run_reference(graph, {"x": x}, graph.outputs)
        expected = np.abs(x) if sign > 0 or shared else -x
        assert np.array_equal(found[graph.outputs[0]], expected)


def test_integer_weights_that_are_only_cast_to_floats_are_stored_as_floats(tmp_path) -> None:
    """Weight-only int8: Cast, less a zero point, times a scale, of any size."""
    stored = np.arange(-128, 128, dtype=np.int8).repeat(512).reshape(256, 512)
    scale = np.linspace(0.1, 2, 512, dtype=np.float32)
    nodes = [
        helper.make_node("Cast", ["w8"], ["w"], to=FLOAT),
        helper.make_node("Sub", ["w", "zero"], ["centred"]),
        helper.make_node("Mul", ["centred", "scale"], ["weight"]),
        helper.make_node("MatMul", ["x", "weight"], ["y"]),
    ]
    initial = [
        numpy_helper.from_array(stored, "w8"),
        numpy_helper.from_array(np.array(3, np.float32), "zero"),
        numpy_helper.from_array(scale, "scale"),
    ]
    graph = _read(tmp_path, helper.make_graph(nodes, "g", [_info("x", [1, 256])], [_info("y")], initial))
    assert [node.op_type for node in graph.nodes] == ["MatMul"]
    (weight,) = graph.constants.values()
    np.testing.assert_array_equal(weight, (stored.astype(np.float32) - np.float32(3)) * scale)


@pytest.mark.parametrize(
    ("scales", "points", "axis"), [((), (), 1), ((512,), (512,), 1), ((256,), (256,), 0), ((512,), None, -1)]
)
def test_weights_behind_dequantize_linear_are_stored_as_floats_where_wanted(
    tmp_path, scales: tuple[int, ...], points: tuple[int, ...] | None, axis: int
) -> None:
    generator = np.random.default_rng(7)
    arrays = {
        "w8": generator.integers(-128, 127, (256, 512)).astype(np.int8),
        "scale": generator.random(scales, np.float32) + np.float32(0.1),
    }
    if points is not None:
        arrays["point"] = generator.integers(-9, 9, points or None, np.int8) * np.ones(points, np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", list(arrays), ["weight"], axis=axis),
        helper.make_node("MatMul", ["x", "weight"], ["y"]),
    ]
    initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    whole = helper.make_graph(nodes, "g", [_info("x", [2, 256])], [_info("y")], initial)
    kept = _read(tmp_path, whole)
    assert [node.op_type for node in kept.nodes] == ["DequantizeLinear", "MatMul"]
    graph = read_model(tmp_path / "m.onnx", form=ModelForm(float_weights=True))
    assert [node.op_type for node in graph.nodes] == ["MatMul"]
    (weight,) = graph.constants.values()
    dequantised = kept.nodes[0].outputs[0]
    x = {"x": np.zeros((2, 256), np.float32)}
    np.testing.assert_array_equal(weight, run_reference(kept, x, [dequantised])[dequantised])
