"""Rows added by a product are those that ONNX Runtime adds."""

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


def _adding(data: str, updates: str, result: str) -> onnx.NodeProto:
    return helper.make_node("ScatterElements", [data, "numbers", updates], [result], axis=0, reduction="add")


def test_several_operators_share_the_matrix(tmp_path: Path) -> None:
    given = {"x": _floats(6, 1), "z": _floats(6, 1), "numbers": np.array([[5], [-2], [1]], np.int64)}
    given |= {"u": _floats(3, 1)}
    nodes = [_adding("x", "u", "a"), _adding("z", "u", "b"), helper.make_node("Sub", ["a", "b"], ["y"])]
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
    given = {"numbers": np.array([[1], [2]], np.int64), "u": _floats(2, 1)}
    form = ModelForm(whole=lambda _: False, selection_elements=27)
    known = {"x": _floats(7, 1)}
    assert "ScatterElements" in _operators(
        _read(tmp_path, [_adding("x", "u", "y")], given, known, form), given
    )


def test_rows_that_are_no_numbers_are_not_multiplied(tmp_path: Path) -> None:
    rows = _floats(7, 1)
    rows[3] = -np.inf
    given = {"numbers": np.array([[1], [2]], np.int64), "u": _floats(2, 1)}
    nodes = [_adding("x", "u", "y")]
    assert "ScatterElements" in _operators(_read(tmp_path, nodes, given, {"x": rows}), given)
