"""Transposes around operators that need none go; what is computed stays the same."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft, read_draft
from npuviz.onnx.inputs import Given
from npuviz.onnx.passes import axis_moves, neighbours
from npuviz.onnx.passes.neighbours import Shapes
from npuviz.onnx.reader import read_model
from npuviz.onnx.shape_inference import infer_shapes
from npuviz.program.graph import Graph
from tests.onnx.cases import random, read_the_same, save, value
from tests.sweeps import quick

LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
"""Channels last, and back."""


def _node(kind: str, reads: list[str], makes: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, reads, [makes], f"n_{makes}", **attributes)


def _turns(graph: Graph) -> int:
    return [node.op_type for node in graph.nodes].count("Transpose")


def _image_model(path: Path, nodes: list[NodeProto], outputs: list[str], **weights: np.ndarray) -> Path:
    """x goes through a convolution to "c" and a Transpose to "t", before the nodes."""
    begin = [_node("Conv", ["x", "w"], "c"), _node("Transpose", ["c"], "t", perm=LAST)]
    held = {"w": random(4, 3, 3, 3), **weights}
    ends = [value(name, None) for name in outputs]
    return save(path / "m.onnx", [*begin, *nodes], [value("x", [1, 3, 8, 9])], ends, held)


def test_what_lies_between_two_transposes_works_in_the_first_order(tmp_path: Path) -> None:
    """As madmom's exporter writes its networks."""
    nodes = [
        _node("Squeeze", ["t", "batch"], "s"),
        _node("Mul", ["s", "scale"], "m"),
        _node("Add", ["offset", "m"], "a"),
        _node("Elu", ["a"], "e"),
        _node("Pad", ["e", "pads", "nothing"], "p"),
        _node("Unsqueeze", ["p", "batch"], "u"),
        _node("Transpose", ["u"], "v", perm=FIRST),
        _node("Conv", ["v", "w2"], "y"),
    ]
    weights = {
        "batch": np.array([0]), "scale": random(4), "offset": random(7, 1), "w2": random(2, 4, 3, 3),
        "pads": np.array([1, 0, 0, 2, 1, 0]), "nothing": np.array(0.5, np.float32),
    }  # fmt: skip
    path = _image_model(tmp_path, nodes, ["y"], **weights)
    assert _turns(read_the_same(path, {"x": (1, 3, 8, 9)})) == 0


def test_a_sum_of_two_branches_is_turned_with_both(tmp_path: Path) -> None:
    nodes = [
        _node("Relu", ["t"], "r"),
        _node("Conv", ["x", "w"], "c2"),
        _node("Transpose", ["c2"], "t2", perm=LAST),
        _node("Sub", ["t2", "r"], "d"),
        _node("Transpose", ["d"], "y", perm=FIRST),
    ]
    assert _turns(read_the_same(_image_model(tmp_path, nodes, ["y"]), {"x": (1, 3, 8, 9)})) == 0


def test_what_others_read_keeps_its_order_and_name(tmp_path: Path) -> None:
    """The output in between costs a Transpose, which one of the two had been."""
    nodes = [
        _node("Sigmoid", ["t"], "o"),
        _node("Tanh", ["o"], "h"),
        _node("Transpose", ["h"], "v", perm=FIRST),
        _node("Conv", ["v", "w2"], "y"),
    ]
    path = _image_model(tmp_path, nodes, ["o", "y"], w2=random(2, 4, 1, 1))
    assert _turns(read_the_same(path, {"x": (1, 3, 8, 9)})) == 1


def test_two_that_together_move_one_index_only_are_a_view(tmp_path: Path) -> None:
    nodes = [
        _node("Exp", ["x"], "e"),
        _node("Transpose", ["e"], "t", perm=[0, 2, 1]),
        _node("Neg", ["t"], "n"),
        _node("Transpose", ["n"], "y", perm=[2, 1, 0]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [1, 4, 6])], [value("y", None)])
    assert [node.op_type for node in read_the_same(path, {"x": (1, 4, 6)}).nodes] == ["Exp", "Neg", "Reshape"]


def test_transposes_that_are_needed_stay(tmp_path: Path) -> None:
    """A product over the last axis, as in an attention: nothing would be gained."""
    nodes = [
        _node("Transpose", ["x"], "t", perm=[0, 2, 1]),
        _node("Relu", ["t"], "r"),
        _node("MatMul", ["r", "w"], "m"),
        _node("Transpose", ["m"], "y", perm=[0, 2, 1]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2, 4, 6])], [value("y", None)], {"w": random(4, 5)})
    graph = read_the_same(path, {"x": (2, 4, 6)})
    assert [node.name for node in graph.nodes] == ["n_t", "n_r", "n_m", "n_y"]


@quick(every=4)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_compute_theread_the_same(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known: dict[str, tuple[int, ...]] = {"x": (2, 1, 3, 4), "z": (2, 1, 3, 4)}
    nodes: list[NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    for number in range(14):
        name, source = f"t{number}", str(rng.choice(list(known)))
        shape = known[source]
        kind = str(
            rng.choice(["Transpose", "Transpose", "Relu", "Add", "Mul", "Squeeze", "Unsqueeze", "Pad"])
        )
        peers = [other for other in known if known[other] == shape]
        constant = random(
            *(size if rng.random() < 0.6 else 1 for size in shape[rng.integers(len(shape) + 1) :])
        )
        axis = int(rng.integers(len(shape) + (kind == "Unsqueeze")))
        if kind == "Transpose":
            order = rng.permutation(len(shape))
            nodes.append(_node(kind, [source], name, perm=order))
            shape = tuple(shape[place] for place in order)
        elif kind == "Add":
            nodes.append(_node(kind, [source, str(rng.choice(peers))], name))
        elif kind == "Mul":
            weights[f"w{number}"] = constant
            nodes.append(_node(kind, [source, f"w{number}"], name))
        elif kind == "Pad":
            ends = rng.integers(0, 2, 2 * len(shape))
            weights[f"w{number}"] = ends
            nodes.append(_node(kind, [source, f"w{number}"], name))
            shape = tuple(size + int(ends[i] + ends[i + len(shape)]) for i, size in enumerate(shape))
        elif (
            kind == "Relu"
            or (kind == "Unsqueeze" and len(shape) > 4)
            or (kind == "Squeeze" and shape[axis] > 1)
        ):
            nodes.append(_node("Relu", [source], name))
        else:
            weights[f"w{number}"] = np.array([axis])
            nodes.append(_node(kind, [source, f"w{number}"], name))
            shape = (
                (*shape[:axis], 1, *shape[axis:]) if kind == "Unsqueeze" else shape[:axis] + shape[axis + 1 :]
            )
        known[name] = shape
    ends = [name for name in list(known)[2:] if rng.random() < 0.2 or name == "t13"]
    given = [value(name, list(known[name])) for name in ("x", "z")]
    path = save(tmp_path / "m.onnx", nodes, given, [value(name, list(known[name])) for name in ends], weights)
    onnx.checker.check_model(str(path))
    moved = _moved(read_the_same(path, {name: known[name] for name in ("x", "z")}, atol=1e-4))
    assert moved <= _moved(read_model(path, optimize=False))


def _moved(graph: Graph) -> int:
    """Elements that Transposes move."""
    turned = [node.outputs[0] for node in graph.nodes if node.op_type == "Transpose"]
    return sum(graph.tensors[tensor].num_elements for tensor in turned)


def test_the_nodes_of_a_model_are_taken_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many regions are written: a model of thousands of operators has dozens of them."""
    nodes, previous = list[NodeProto](), "t"
    for number in range(6):
        nodes += [
            _node("Relu", [previous], f"r{number}"),
            _node("Transpose", [f"r{number}"], f"u{number}", perm=FIRST),
            _node("Conv", [f"u{number}", "w2"], f"c{number}"),
            _node("Transpose", [f"c{number}"], f"t{number}", perm=LAST),
        ]
        previous = f"t{number}"
    path = _image_model(tmp_path, nodes, [previous], w2=random(4, 4, 1, 1))
    taken: list[str] = []
    entry_of = neighbours._entry_of

    def counted(node: NodeProto) -> Any:
        taken.append(node.op_type)
        return entry_of(node)

    monkeypatch.setattr(neighbours, "_entry_of", counted)
    axis_moves.settle_transposes(*_draft_of(path))
    assert taken.count("Conv") == 7
    assert 0 < taken.count("Relu") <= 2 * 6, "each once, and once more where it was written anew"


def _draft_of(path: Path) -> tuple[Draft, Shapes]:
    draft = read_draft(path)
    return draft, infer_shapes(draft, Given())
