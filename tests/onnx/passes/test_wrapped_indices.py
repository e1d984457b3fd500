"""Numbers of rows from the end need no operators before a Gather."""

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.cases import random, save, value

ROWS = 9
NUMBERS = np.array([[0, -1, 8, -9], [3, -4, 5, 1]])
WEIGHTS: dict[str, np.ndarray] = {
    "table": random(ROWS, 4), "zero": np.array([0]), "rows": np.array([ROWS]),
    "float_zero": np.array([0], np.float32), "one": np.array([1]),
}  # fmt: skip


def _node(kind: str, reads: list[str], makes: str, **attributes: object) -> NodeProto:
    return helper.make_node(kind, reads, [makes], f"n_{makes}", **attributes)  # pyright: ignore


def _read(path: Path, nodes: list[NodeProto], kind: int = TensorProto.INT64) -> Graph:
    """The model as it is read, after its output was held against that of the file."""
    numbers: np.ndarray = NUMBERS.astype(helper.tensor_dtype_to_np_dtype(kind))
    weights = {
        name: each.astype(numbers.dtype) if each.dtype == np.int64 else each for name, each in WEIGHTS.items()
    }
    made = save(
        path / "m.onnx",
        [*nodes, _node("Gather", ["table", "i"], "y")],
        [value("x", list(numbers.shape), kind)],
        [value("y", None)],
        weights,
    )
    graph, whole = read_model(made), read_model(made, optimize=False)
    found, wanted = (run_reference(each, {"x": numbers}, each.outputs) for each in (graph, whole))
    np.testing.assert_array_equal(next(iter(found.values())), next(iter(wanted.values())))
    return graph


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
def test_a_choice_goes(tmp_path: Path, kind: int) -> None:
    nodes = [
        _node("Less", ["x", "zero"], "b"),
        _node("Add", ["x", "rows"], "a"),
        _node("Where", ["b", "a", "x"], "i"),
    ]
    assert [node.op_type for node in _read(tmp_path, nodes, kind).nodes] == ["Gather"]


def test_a_choice_by_products_goes(tmp_path: Path) -> None:
    nodes = [
        _node("Add", ["x", "rows"], "a"),
        _node("Cast", ["x"], "f", to=TensorProto.FLOAT),
        _node("Less", ["f", "float_zero"], "b"),
        _node("Not", ["b"], "n"),
        _node("Cast", ["n"], "kept", to=TensorProto.INT64),
        _node("Mul", ["x", "kept"], "same"),
        _node("Cast", ["b"], "changed", to=TensorProto.INT64),
        _node("Mul", ["changed", "a"], "other"),
        _node("Add", ["other", "same"], "i"),
    ]
    assert [node.op_type for node in _read(tmp_path, nodes).nodes] == ["Gather"]


def test_other_numbers_stay(tmp_path: Path) -> None:
    """Row 1 for each number below 1 is no wrapping."""
    nodes = [
        _node("Less", ["x", "one"], "b"),
        _node("Where", ["b", "one", "x"], "i"),
    ]
    assert "Where" in [node.op_type for node in _read(tmp_path, nodes).nodes]
