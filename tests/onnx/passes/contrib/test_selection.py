"""Rows picked by a product are those that ONNX Runtime picks."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

ALL = ModelForm(whole=lambda _: False, selection_elements=1 << 16)


def _read(
    folder: Path,
    nodes: list[onnx.NodeProto],
    given: dict[str, np.ndarray],
    known: dict[str, np.ndarray],
    form: ModelForm = ALL,
) -> tuple[Graph, Graph]:
    """A model as it is, and written out."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in given.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return read_model(path, optimize=False), read_model(path, form=form)


def _operators(graphs: tuple[Graph, Graph], given: dict[str, np.ndarray]) -> set[str]:
    """Compare both forms; returns the operators of the written one."""
    expected, found = (run_reference(each, given, each.outputs)[each.outputs[0]] for each in graphs)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return {node.op_type for node in graphs[1].nodes}


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("shape", "numbers", "attributes"),
    [
        ((7, 5), [[6, -1, 0], [3, -7, 3]], {}),
        ((7, 2, 3), [4], {}),
        ((1, 6, 3), [5, -6, 2], {"axis": -2}),
        ((1, 5), [[0, -1], [0, 0]], {}),
        ((4, 1, 2), [0, -1], {"axis": 1}),
        ((5,), [2, -2], {}),
        ((5, 2), 3, {}),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_a_gather_is_a_product(
    shape: tuple[int, ...],
    numbers: Any,
    attributes: dict[str, Any],
    dtype: type,
    is_known: bool,
    tmp_path: Path,
) -> None:
    given = {"numbers": np.array(numbers, dtype)}
    known = {"x": _floats(*shape)}
    if not is_known:
        given |= known
    nodes = [helper.make_node("Gather", ["x", "numbers"], ["y"], **attributes)]
    operators = _operators(_read(tmp_path, nodes, given, known if is_known else {}), given)
    assert "Gather" not in operators
    assert ("MatMul" in operators) == (shape[attributes.get("axis", 0)] > 1)


@pytest.mark.parametrize("rows", [1, 6])
def test_gathering_whole_rows_by_points_is_a_product(rows: int, tmp_path: Path) -> None:
    given = {"x": _floats(rows, 3, 2), "numbers": np.array([[[rows - 1], [0]], [[-1], [-rows]]], np.int64)}
    nodes = [helper.make_node("GatherND", ["x", "numbers"], ["y"])]
    assert "GatherND" not in _operators(_read(tmp_path, nodes, given, {}), given)


@pytest.mark.parametrize("rows", [1, 4])
def test_rows_added_to_rows_are_a_product(rows: int, tmp_path: Path) -> None:
    numbers = np.array([[rows - 1], [0], [-1], [0], [-rows]], np.int64)
    given = {"numbers": numbers, "updates": _floats(5, 3)}
    known = {"x": _floats(rows, 3), "size": np.array([5, 3], np.int64)}
    nodes = [
        helper.make_node("Expand", ["numbers", "size"], ["wide"]),
        helper.make_node("ScatterElements", ["x", "wide", "updates"], ["y"], axis=0, reduction="add"),
    ]
    operators = _operators(_read(tmp_path, nodes, given, known), given)
    assert "MatMul" in operators
    assert "ScatterElements" not in operators


def test_several_operators_share_the_matrix(tmp_path: Path) -> None:
    given = {"x": _floats(6, 3), "z": _floats(6, 3), "numbers": np.array([5, -2, 1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["x", "numbers"], ["a"]),
        helper.make_node("Gather", ["z", "numbers"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    graphs = _read(tmp_path, nodes, given, {})
    _operators(graphs, given)
    assert [node.op_type for node in graphs[1].nodes].count("Equal") == 1


@pytest.mark.parametrize(
    ("numbers", "attributes"),
    [
        ([[0, 1, 2], [3, 2, 1]], {"reduction": "add"}),
        ([[0, 0, 0], [3, 3, 3]], {"reduction": "max"}),
        ([[0, 0, 0], [3, 3, 3]], {}),
    ],
)
def test_other_ways_to_scatter_stay(numbers: Any, attributes: dict[str, Any], tmp_path: Path) -> None:
    given = {"numbers": np.array(numbers, np.int64), "updates": _floats(2, 3)}
    nodes = [helper.make_node("ScatterElements", ["x", "numbers", "updates"], ["y"], axis=0, **attributes)]
    assert "ScatterElements" in _operators(_read(tmp_path, nodes, given, {"x": _floats(4, 3)}), given)


def test_a_large_matrix_is_not_made(tmp_path: Path) -> None:
    given = {"numbers": np.array([1, 2], np.int64)}
    nodes = [helper.make_node("Gather", ["x", "numbers"], ["y"])]
    form = ModelForm(whole=lambda _: False, selection_elements=27)
    assert "Gather" in _operators(_read(tmp_path, nodes, given, {"x": _floats(7, 5)}, form), given)


def test_rows_that_are_no_numbers_are_not_multiplied(tmp_path: Path) -> None:
    rows = _floats(7, 5)
    rows[3, 3] = -np.inf
    given = {"numbers": np.array([1, 2], np.int64)}
    nodes = [helper.make_node("Gather", ["x", "numbers"], ["y"])]
    assert "Gather" in _operators(_read(tmp_path, nodes, given, {"x": rows}), given)
