"""Zeros around a convolution, and factors and summands behind it, become parts of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from tests.onnx.cases import random, read_the_same, save, value


def _node(kind: str, reads: list[str], makes: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, reads, [makes], f"n_{makes}", **attributes)


def _kinds(
    path: Path, nodes: list[NodeProto], weights: dict[str, np.ndarray], *, form: ModelForm = AS_IT_IS,
    outputs: tuple[str, ...] = ("y",),
) -> list[str]:  # fmt: skip
    """What a model with input x is read as, after its outputs were held against those of the file."""
    ends = [value(name, None) for name in outputs]
    file = save(path / "m.onnx", nodes, [value("x", [2, 4, 6, 7])], ends, weights)
    graph = read_the_same(file, {"x": (2, 4, 6, 7)}, form=form)
    return [node.op_type for node in graph.nodes]


_PADDED = {"pads": np.array([0, 0, 1, 2, 0, 0, 0, 3]), "w": random(6, 4, 3, 3), "b": random(6)}


def test_zeros_before_convolutions_are_their_padding(tmp_path: Path) -> None:
    nodes = [
        _node("Pad", ["x", "pads"], "p"),
        _node("Conv", ["p", "w", "b"], "y", pads=[1, 0, 0, 1]),
        _node("Conv", ["p", "w"], "z", auto_pad="VALID", strides=[2, 1]),
    ]
    assert _kinds(tmp_path, nodes, _PADDED, outputs=("y", "z")) == ["Conv", "Conv"]


@pytest.mark.parametrize("why", ["channels", "value", "mode", "other reader", "output", "same", "many"])
def test_other_pads_stay(tmp_path: Path, why: str) -> None:
    weights = dict(_PADDED)
    nodes = [_node("Pad", ["x", "pads"], "p"), _node("Conv", ["p", "w", "b"], "y")]
    outputs, form = ("y",), AS_IT_IS
    if why == "channels":
        weights |= {"pads": np.array([0, 1, 0, 0, 0, 1, 0, 0]), "w": random(6, 6, 3, 3)}
    elif why == "value":
        weights["one"] = np.array(1, np.float32)
        nodes[0].input.append("one")
    elif why == "mode":
        nodes[0].attribute.append(helper.make_attribute("mode", "edge"))
    elif why == "other reader":
        nodes.append(_node("Exp", ["p"], "z"))
        outputs = ("y", "z")
    elif why == "output":
        outputs = ("y", "p")
    elif why == "same":
        nodes[1].attribute.append(helper.make_attribute("auto_pad", "SAME_UPPER"))
    else:
        form = ModelForm(most_padding=2)
    assert "Pad" in _kinds(tmp_path, nodes, weights, outputs=outputs, form=form)


@pytest.mark.parametrize("group", [1, 2])
def test_factors_and_summands_are_folded(tmp_path: Path, group: int) -> None:
    nodes = [
        _node("Conv", ["x", "w"], "c", group=group),
        _node("Mul", ["c", "m"], "d"),
        _node("Sub", ["s", "d"], "e"),
        _node("Div", ["e", "q"], "f"),
        _node("Add", ["f", "a"], "g"),
        _node("Sub", ["g", "s"], "h"),
        _node("Relu", ["h"], "y"),
    ]
    weights = {
        "w": random(6, 4 // group, 3, 3), "m": random(6, 1, 1), "s": random(1, 6, 1, 1),
        "q": np.array(3, np.float32), "a": random(1),
    }  # fmt: skip
    assert _kinds(tmp_path, nodes, weights) == ["Conv", "Relu"]


@pytest.mark.parametrize("why", ["along a row", "read twice", "output", "divides", "more axes", "by itself"])
def test_others_behind_a_convolution_stay(tmp_path: Path, why: str) -> None:
    nodes = [_node("Conv", ["x", "w"], "c"), _node("Mul", ["c", "m"], "y")]
    weights = {"w": random(5, 4, 3, 3), "m": random(5, 1, 1)}
    outputs = ("y",)
    if why == "along a row":
        weights["m"] = random(5)
    elif why == "read twice":
        nodes.append(_node("Exp", ["c"], "z"))
        outputs = ("y", "z")
    elif why == "output":
        outputs = ("y", "c")
    elif why == "divides":
        nodes[1] = _node("Div", ["m", "c"], "y")
        weights["m"] = np.full((5, 1, 1), 1e-3, np.float32)
    elif why == "more axes":
        weights["m"] = random(1, 1, 5, 1, 1)
    else:
        nodes[1] = _node("Mul", ["c", "c"], "y")
    assert len(_kinds(tmp_path, nodes, weights, outputs=outputs)) == len(nodes)


@pytest.mark.parametrize(("factor", "is_folded"), [(1e-3, True), (1e-7, False), (1e6, False), (0.0, True)])
def test_a_factor_that_would_leave_no_bits_of_the_kernels_stays(
    tmp_path: Path, factor: float, is_folded: bool
) -> None:
    """Machines that hold kernels as float16 would compute with zeros or infinities."""
    nodes = [_node("Conv", ["x", "w"], "c"), _node("Mul", ["c", "f"], "y")]
    weights = {"w": random(6, 4, 3, 3), "f": np.array(factor, np.float32)}
    assert ("Mul" not in _kinds(tmp_path, nodes, weights)) == is_folded


@pytest.mark.parametrize(
    ("kernel", "attributes", "limit", "expected"),
    [
        (3, {"strides": [3, 3]}, 2, ["SpaceToDepth", "Conv"]),
        (3, {"strides": [3, 3], "auto_pad": "VALID", "dilations": [1, 1]}, 2, ["SpaceToDepth", "Conv"]),
        (3, {"strides": [3, 3]}, 3, ["Conv"]),
        (2, {"strides": [3, 3]}, 2, ["Conv"]),
        (3, {"strides": [3, 4]}, 2, ["Conv"]),
        (3, {"strides": [3, 3], "pads": [0, 1, 0, 2]}, 2, ["Conv"]),
        (3, {"strides": [3, 3], "auto_pad": "SAME_UPPER"}, 2, ["Conv"]),
        (4, {"strides": [4, 4]}, 3, ["Conv"]),
        (3, {"strides": [3, 3], "group": 2}, 2, ["Conv"]),
    ],
)
def test_windows_beyond_the_largest_stride_become_pixels(
    tmp_path: Path, kernel: int, attributes: dict[str, Any], limit: int, expected: list[str]
) -> None:
    weights = {"w": random(6, 4 // attributes.get("group", 1), kernel, kernel), "b": random(6)}
    file = save(
        tmp_path / "m.onnx", [_node("Conv", ["x", "w", "b"], "y", **attributes)], [value("x", [2, 4, 6, 9])],
        [value("y", None)], weights,
    )  # fmt: skip
    graph = read_the_same(file, {"x": (2, 4, 6, 9)}, form=ModelForm(most_stride=limit))
    assert [node.op_type for node in graph.nodes] == expected
