"""Tests of `benchmarks.int8_speed`: how open dimensions of a model are set."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.int8_speed import fixed
from npuviz.base.errors import UsageError


def model_with(path: Path, dimensions: list[int | str]) -> Path:
    """Write a model of one Mul by 4,096 numbers whose input has these dimensions, -1 and names among them."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, dimensions)
    taken = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c", "d"])
    weights = numpy_helper.from_array(np.ones((1, 1, 64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])], "one", [given], [taken], [weights]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def sizes_of(model: onnx.ModelProto) -> list[int]:
    return [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]


def test_dimensions_of_one_name_are_set_by_their_places(tmp_path: Path) -> None:
    path = model_with(tmp_path / "alike.onnx", [-1, 3, "?", "?"])
    made = fixed(path, {"x[0]": 2, "x[2]": 64, "x[3]": 64})
    assert sizes_of(made) == [2, 3, 64, 64]
    assert [value.name for value in made.graph.input] == ["x"]
    assert [each.name for each in made.graph.initializer] == ["w"]
    assert not made.graph.output[0].type.tensor_type.HasField("shape")


def test_a_name_sets_all_dimensions_that_have_it(tmp_path: Path) -> None:
    path = model_with(tmp_path / "named.onnx", ["n", 3, "side", "side"])
    assert sizes_of(fixed(path, {"n": 1, "side": 8})) == [1, 3, 8, 8]


def test_dimensions_left_open_or_unknown_are_refused(tmp_path: Path) -> None:
    path = model_with(tmp_path / "open.onnx", [-1, 3, "?", "?"])
    with pytest.raises(UsageError, match=r"x\[3\] is open"):
        fixed(path, {"x[0]": 1, "x[2]": 48})
    with pytest.raises(UsageError, match="called 'y'"):
        fixed(path, {"x[0]": 1, "x[2]": 48, "x[3]": 4, "y": 2})
