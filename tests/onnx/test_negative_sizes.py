"""Operators that leave less than nothing are refused by name; ONNX's own inference would end the process."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.reader import read_model
from tests.onnx.cases import save, value

KERNEL = np.ones((2, 1, 7, 7), np.float32)
SLICE = {"start": np.array([1]), "end": np.array([5]), "axis": np.array([2])}


def model(path: Path, nodes: list[NodeProto], dims: list[Any], weights: dict[str, np.ndarray]) -> Path:
    """A model of input x and output y."""
    return save(path, nodes, [value("x", dims)], [value("y", None)], weights)


def sliced(name: str) -> NodeProto:
    return helper.make_node("Slice", [name, "start", "end", "axis"], ["y"], name="slice")


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    ("node", "channels", "weights", "left"),
    [
        (helper.make_node("Conv", ["x", "w"], ["a"], name="made"), 1, {"w": KERNEL}, "1x2x-5x-5"),
        (helper.make_node("MaxPool", ["x"], ["a"], name="made", kernel_shape=[7, 7]), 1, {}, "1x1x-5x-5"),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["a"], name="made", pads=[4, 4, 4, 4]),
            2, {"w": KERNEL}, "1x1x-1x-1",
        ),
        (
            helper.make_node("Pad", ["x", "pads"], ["a"], name="made"),
            1, {"pads": np.array([0, 0, -3, 0, 0, 0, 0, 0])}, "1x1x-2x1",
        ),
    ],
)  # fmt: skip
def test_the_operator_and_the_dimensions_to_set_are_named(
    tmp_path: Path, node: NodeProto, channels: int, weights: dict[str, np.ndarray], left: str, optimize: bool
) -> None:
    path = model(tmp_path / "m.onnx", [node, sliced("a")], ["N", channels, "H", "W"], weights | SLICE)
    with pytest.raises(FormatError) as caught:
        read_model(path, optimize=optimize)
    text = str(caught.value)
    assert "node made" in text
    assert f"a of {left} is left" in text
    assert "--set H=N" in text
    assert "\n" not in text


def test_sizes_that_the_file_fixes_are_not_to_be_set(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="made")
    path = model(tmp_path / "m.onnx", [node], [1, 1, 3, 3], {"w": KERNEL})
    with pytest.raises(FormatError, match="y of 1x2x-3x-3 is left; the sizes are those of the file"):
        read_model(path)


def test_branches_and_functions_are_looked_into(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["a"], name="made", kernel_shape=[7, 7]), sliced("a")],
        "then", [], [value("y", None)],
    )  # fmt: skip
    node = helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)
    path = model(tmp_path / "m.onnx", [node], ["N", 1, "H", "W"], SLICE | {"yes": np.array(True)})
    with pytest.raises(FormatError, match="node made"):
        read_model(path)
    whole = onnx.load(path)
    body = [helper.make_node("MaxPool", ["x"], ["a"], name="made", kernel_shape=[7, 7]), sliced("a")]
    opset = helper.make_opsetid("", 17)
    whole.functions.append(helper.make_function("own", "F", ["x", *SLICE], ["y"], body, [opset]))
    whole.opset_import.append(helper.make_opsetid("own", 1))
    whole.graph.node[0].CopyFrom(helper.make_node("F", ["x", *SLICE], ["y"], domain="own"))
    onnx.save(whole, path)
    with pytest.raises(FormatError, match="leaves something"):
        read_model(path)


def test_a_branch_that_never_runs_may_hold_sizes_that_make_no_sense(tmp_path: Path) -> None:
    """Bodies of functions branch by the rank of their inputs (AffineGrid), and slice elsewhere."""
    cut = helper.make_node("MaxPool", ["x"], ["cut"], name="made", kernel_shape=[7, 7])
    same = helper.make_node("Identity", ["x"], ["same"])
    then, otherwise = (
        helper.make_graph([each], "g", [], [value(each.output[0], None)]) for each in (cut, same)
    )
    nodes = [
        helper.make_node("If", ["yes"], ["z"], then_branch=then, else_branch=otherwise),
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["y"], name="slice"),
        helper.make_node("Relu", ["z"], ["r"]),
    ]
    weights = SLICE | {"yes": np.array(False)}
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [1, 1, 2, 4])], [value("y", None), value("r", None)], weights
    )
    graph = read_model(path)
    assert [graph.tensors[index].shape for index in graph.outputs] == [(1, 1, 1, 4), (1, 1, 2, 4)]


def test_nothing_is_a_size(tmp_path: Path) -> None:
    path = model(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["a"]), sliced("a")], [1, 1, 0, 4], SLICE
    )
    graph = read_model(path)
    assert graph.tensors[graph.outputs[0]].shape == (1, 1, 0, 4)


def test_enough_is_read_as_before(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["a"], name="made")
    path = model(tmp_path / "m.onnx", [node, sliced("a")], ["N", 1, "H", "W"], {"w": KERNEL} | SLICE)
    graph = read_model(path, {"H": 12, "W": 8})
    assert graph.tensors[graph.outputs[0]].shape == (1, 2, 4, 2)


def test_batch_dimensions_below_nothing_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("GatherND", ["x", "rows"], ["y"], name="made", batch_dims=-3)
    path = model(tmp_path / "m.onnx", [node], [3, 2], {"rows": np.array([1])})
    with pytest.raises(FormatError, match="node made: expected batch_dims of at least 0, found -3"):
        read_model(path)


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_one_hot_without_depth_is_refused(tmp_path: Path, is_constant: bool) -> None:
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"], name="made")
    weights = {"values": np.array([0, 1], np.float32)} | ({"depth": np.zeros(0)} if is_constant else {})
    inputs = [value("x", [3]), *(() if is_constant else (value("depth", [0]),))]
    path = save(tmp_path / "m.onnx", [node], inputs, [value("y", [3, 4])], weights)
    with pytest.raises(FormatError, match="node made: expected OneHot with a depth, found depth of 0"):
        read_model(path)
