"""Queries, keys and values of one product are slices of it."""

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.cases import random, save, value


def _node(kind: str, reads: list[str], makes: str, **attributes: object) -> NodeProto:
    return helper.make_node(kind, reads, [makes], f"n_{makes}", **attributes)  # pyright: ignore


def _read(path: Path, nodes: list[NodeProto], outputs: list[str], weights: dict[str, np.ndarray]) -> Graph:
    """The model as it is read, after its outputs were held against those of the file."""
    given, ends = [value("x", [6, 2, 8])], [value(name, None) for name in outputs]
    made = save(path / "m.onnx", nodes, given, ends, weights)
    graph, whole = read_model(made), read_model(made, optimize=False)
    x = {"x": random(6, 2, 8)}
    found, wanted = (run_reference(each, x, each.outputs) for each in (graph, whole))
    for one, other in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    return graph


def _packed(order: list[int]) -> list[NodeProto]:
    """As torch writes its attention: the parts get an axis, which comes to the front."""
    return [
        _node("MatMul", ["x", "w"], "p"),
        _node("Reshape", ["p", "apart"], "r"),
        _node("Unsqueeze", ["r", "front"], "u"),
        _node("Transpose", ["u"], "t", perm=order),
        _node("Squeeze", ["t", "axis"], "s"),
    ]


WEIGHTS = {
    "w": random(8, 12), "apart": np.array([6, 2, 3, 4]), "front": np.array([0]), "axis": np.array([-2]),
    "first": np.array(0), "last": np.array(-1), "two": np.array([1, 2]), "ends": np.array([0, 2]),
}  # fmt: skip


def test_parts_are_slices(tmp_path: Path) -> None:
    nodes = [
        *_packed([3, 1, 2, 0, 4]),
        _node("Gather", ["s", "first"], "q"),
        _node("Gather", ["s", "last"], "v"),
    ]
    graph = _read(tmp_path, nodes, ["q", "v"], WEIGHTS)
    assert sorted(node.op_type for node in graph.nodes) == ["MatMul", "Slice", "Slice"]


@pytest.mark.parametrize("indices", ["two", "ends"])
def test_what_is_no_slice_stays(tmp_path: Path, indices: str) -> None:
    """Two parts one behind the other are no columns of the product."""
    nodes = [*_packed([3, 1, 2, 0, 4]), _node("Gather", ["s", indices], "y")]
    assert "Slice" not in [node.op_type for node in _read(tmp_path, nodes, ["y"], WEIGHTS).nodes]


def test_rows_in_another_order_stay(tmp_path: Path) -> None:
    nodes = [*_packed([3, 2, 1, 0, 4]), _node("Gather", ["s", "first"], "y")]
    assert "Slice" not in [node.op_type for node in _read(tmp_path, nodes, ["y"], WEIGHTS).nodes]


def _shuffled(groups: int) -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """Channels of a picture (1, 12, 4, 4) in groups, whose halves or thirds one Gather each picks."""
    weights = {
        "split": np.array([12 // groups, groups, 16]), "parts": np.array([groups, -1, 12 // groups, 4, 4]),
        "first": np.array(0), "last": np.array(-1), "picture": np.array([1, 12, 4, 4]),
    }  # fmt: skip
    nodes = [
        _node("Reshape", ["x", "picture"], "p"),
        _node("Relu", ["p"], "a"),
        _node("Reshape", ["a", "split"], "r"),
        _node("Transpose", ["r"], "t", perm=[1, 0, 2]),
        _node("Reshape", ["t", "parts"], "s"),
        _node("Gather", ["s", "first"], "q"),
        _node("Gather", ["s", "last"], "v"),
    ]
    return nodes, weights


@pytest.mark.parametrize("groups", [2, 3, 4, 6])
def test_shuffled_channels_are_every_second_one(tmp_path: Path, groups: int) -> None:
    nodes, weights = _shuffled(groups)
    given = [value("x", [6, 2, 16])]
    made = save(tmp_path / "m.onnx", nodes, given, [value(name, None) for name in "qv"], weights)
    graph, whole = read_model(made), read_model(made, optimize=False)
    x = {"x": random(6, 2, 16)}
    found, wanted = (run_reference(each, x, each.outputs) for each in (graph, whole))
    for one, other in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    slices = [node for node in graph.nodes if node.op_type == "Slice"]
    steps = [int(graph.constants[node.inputs[4]][0]) for node in slices]
    assert steps == [groups, groups]
    assert "Transpose" not in [node.op_type for node in graph.nodes]
