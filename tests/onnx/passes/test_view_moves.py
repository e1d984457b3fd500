"""Views around operators that work in either shape go; what is computed stays the same."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from tests.onnx.cases import random, read_the_same, save, value
from tests.sweeps import quick

_VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


def _node(kind: str, reads: list[str], makes: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, reads, [makes], f"n_{makes}", **attributes)


def _kinds(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def _views(graph: Graph) -> int:
    return sum(kind in _VIEWS for kind in _kinds(graph))


def _image_model(path: Path, nodes: list[NodeProto], outputs: list[str], **weights: np.ndarray) -> Path:
    """x goes through a pool to "c" of (1, 3, 8, 8), before the nodes."""
    begin = [_node("AveragePool", ["x"], "c", kernel_shape=[1, 2])]
    ends = [value(name, None) for name in outputs]
    return save(path / "m.onnx", [*begin, *nodes], [value("x", [1, 3, 8, 9])], ends, dict(weights))


def test_operators_between_two_views_work_in_the_first_shape(tmp_path: Path) -> None:
    """As madmom's exporter writes normalisations, in the order of channels that other passes leave."""
    nodes = [
        _node("Squeeze", ["c", "batch"], "s"),
        _node("Mul", ["s", "scale"], "m"),
        _node("Add", ["offset", "m"], "a"),
        _node("Relu", ["a"], "r"),
        _node("Pad", ["r", "pads", "half"], "p"),
        _node("Slice", ["p", "from", "to", "axis"], "z"),
        _node("Unsqueeze", ["z", "batch"], "u"),
        _node("MaxPool", ["u"], "y", kernel_shape=[2, 2]),
    ]
    weights = {
        "batch": np.array([0]), "scale": random(3, 1, 1), "offset": random(3, 8, 8),
        "pads": np.array([0, 1, 2, 0, 0, 1]), "half": np.array(0.5, np.float32),
        "from": np.array([2]), "to": np.array([7]), "axis": np.array([-1]),
    }  # fmt: skip
    graph = read_the_same(_image_model(tmp_path, nodes, ["y"], **weights), {"x": (1, 3, 8, 9)})
    assert _views(graph) == 0
    assert _kinds(graph) == ["AveragePool", "Mul", "Add", "Relu", "Pad", "Slice", "MaxPool"]


def test_axes_that_a_view_joins_are_parted_for_constants(tmp_path: Path) -> None:
    nodes = [
        _node("Reshape", ["c", "flat"], "s"),
        _node("Mul", ["s", "scale"], "m"),
        _node("Sub", ["m", "rows"], "d"),
        _node("Reshape", ["d", "image"], "y"),
    ]
    weights = {
        "flat": np.array([3, 64]), "image": np.array([1, 3, 8, 8]), "scale": random(3, 1), "rows": random(64),
    }  # fmt: skip
    assert _views(read_the_same(_image_model(tmp_path, nodes, ["y"], **weights), {"x": (1, 3, 8, 9)})) == 0


def test_what_needs_the_second_shape_keeps_it(tmp_path: Path) -> None:
    """A constant that repeats along a part of an axis of the first, and an operator along an axis."""
    nodes = [
        _node("Reshape", ["c", "flat"], "f"),
        _node("Softmax", ["f"], "h", axis=0),
        _node("Reshape", ["h", "parts"], "s"),
        _node("Mul", ["s", "scale"], "m"),
        _node("Softmax", ["m"], "z", axis=1),
        _node("Reshape", ["z", "flat"], "y"),
    ]
    weights = {"flat": np.array([24, 8]), "parts": np.array([3, 8, 8]), "scale": random(3, 1, 1)}
    graph = read_the_same(_image_model(tmp_path, nodes, ["y"], **weights), {"x": (1, 3, 8, 9)})
    assert [node.name for node in graph.nodes][1:] == ["n_f", "n_h", "n_s", "n_m", "n_z", "n_y"]


def test_an_operator_behind_a_product_comes_before_the_view(tmp_path: Path) -> None:
    """As Keras writes convolutions of one dimension."""
    nodes = [
        _node("Conv", ["x", "w"], "c"),
        _node("Squeeze", ["c", "axis"], "s"),
        _node("Add", ["s", "bias"], "a"),
        _node("Relu", ["a"], "r"),
        _node("Softmax", ["r"], "y", axis=-1),
    ]
    weights = {"w": random(5, 4, 1, 3), "axis": np.array([2]), "bias": random(5, 1)}
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2, 4, 1, 9])], [value("y", None)], weights)
    assert _kinds(read_the_same(path, {"x": (2, 4, 1, 9)})) == ["Conv", "Relu", "Reshape", "Softmax"]


@quick(every=4)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_compute_theread_the_same(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known: dict[str, tuple[int, ...]] = {"x": (2, 1, 3, 4), "z": (2, 1, 3, 4)}
    nodes: list[NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    shapes = [(2, 1, 3, 4), (6, 4), (2, 12), (2, 3, 4), (1, 2, 3, 4), (24,)]
    for number in range(16):
        name, source = f"t{number}", str(rng.choice(list(known)))
        shape = known[source]
        size = int(np.prod(shape))
        kind = str(rng.choice(["Reshape", "Reshape", "Reshape", "Relu", "Add", "Mul", "Pad", "Slice"]))
        peers = [other for other in known if known[other] == shape]
        axis = int(rng.integers(len(shape)))
        held = f"w{number}"
        if kind == "Reshape":
            wanted = shapes[rng.integers(len(shapes))] if size == 24 else (size, 1)
            weights[held], shape = np.array(wanted), wanted
            nodes.append(_node(kind, [source, held], name))
        elif kind == "Add":
            nodes.append(_node(kind, [source, str(rng.choice(peers))], name))
        elif kind == "Mul":
            begin = int(rng.integers(len(shape) + 1))
            weights[held] = random(*(length if rng.random() < 0.6 else 1 for length in shape[begin:]))
            nodes.append(_node(kind, [source, held], name))
        elif kind == "Pad" and number > 8:
            ends = np.zeros((2, len(shape)), np.int64)
            ends[:, axis] = rng.integers(0, 2, 2)
            weights[held] = ends.reshape(-1)
            nodes.append(_node(kind, [source, held], name))
            shape = tuple(length + int(ends[:, i].sum()) for i, length in enumerate(shape))
        elif kind == "Slice" and number > 8 and shape[axis] > 1:
            limits = {"a": 1, "b": 1 << 40, "c": axis - len(shape), "d": 2}
            weights.update({held + key: np.array([limit]) for key, limit in limits.items()})
            nodes.append(_node(kind, [source, *(held + key for key in limits)], name))
            shape = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        else:
            nodes.append(_node("Relu", [source], name))
        known[name] = shape
    ends = [name for name in list(known)[2:] if rng.random() < 0.2 or name == "t15"]
    given = [value(name, list(known[name])) for name in ("x", "z")]
    path = save(tmp_path / "m.onnx", nodes, given, [value(name, list(known[name])) for name in ends], weights)
    onnx.checker.check_model(str(path))
    graph = read_the_same(path, {name: known[name] for name in ("x", "z")})
    assert _views(graph) <= _views(read_model(path, optimize=False))
