"""Reversals of the steps around recurrent operators: they go, and the results stay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from tests.onnx.cases import random, read_the_same, save, value

STEPS, FEATURES, HIDDEN = 5, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WEIGHTS = {
    "one": np.array([1]), "axes": np.array([1, 2]), "start": np.array([-1]), "steps": np.array([0]),
    "end": np.array([-(1 << 31)]), "back": np.array([-1]), "features": np.array([1]),
}  # fmt: skip


def _node(kind: str, reads: list[str], makes: list[str], **attributes: Any) -> NodeProto:
    return helper.make_node(kind, reads, makes, f"n_{makes[0] or makes[-1]}", **attributes)


def _turned(source: str, target: str, axis: str = "steps") -> NodeProto:
    return _node("Slice", [source, "start", "end", axis, "back"], [target])


def _model(path: Path, kind: str, nodes: list[NodeProto], outputs: list[str]) -> Path:
    gates = GATES[kind]
    held = {"w": random(1, gates * HIDDEN, FEATURES), "r": random(1, gates * HIDDEN, HIDDEN), **WEIGHTS}
    if kind == "LSTM":
        held["p"] = random(1, 3 * HIDDEN)
    ends = [value(name, None) for name in outputs]
    return save(path / "m.onnx", nodes, [value("x", [STEPS, FEATURES])], ends, held)


def _layer(kind: str, outputs: list[str], **attributes: Any) -> list[NodeProto]:
    """A reversal, the layer with axes as madmom's exporter writes it, and its results in order as "b"."""
    more = ["", "", "", "", "p"] if kind == "LSTM" else []
    return [
        _turned("x", "t"),
        _node("Unsqueeze", ["t", "one"], ["u"]),
        _node(kind, ["u", "w", "r", *more], ["y", *outputs], hidden_size=HIDDEN, **attributes),
        _node("Squeeze", ["y", "axes"], ["s"]),
        _turned("s", "b"),
    ]


def _kinds(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_layer_between_two_reversals_begins_with_the_last_step(
    tmp_path: Path, kind: str, direction: str
) -> None:
    """The state after the run is the same."""
    path = _model(tmp_path, kind, _layer(kind, ["h"], direction=direction), ["b", "h"])
    assert "Slice" not in _kinds(read_the_same(path, {"x": (STEPS, FEATURES)}))


def test_only_the_state_may_be_wanted(tmp_path: Path) -> None:
    nodes = [
        _turned("x", "t"),
        _node("Unsqueeze", ["t", "one"], ["u"]),
        _node("GRU", ["u", "w", "r"], ["", "h"], hidden_size=HIDDEN),
    ]
    graph = read_the_same(_model(tmp_path, "GRU", nodes, ["h"]), {"x": (STEPS, FEATURES)})
    assert "Slice" not in _kinds(graph)


@pytest.mark.parametrize("reason", ["the sequence is read as it is", "another axis", "only half of it"])
def test_reversals_that_are_needed_stay(tmp_path: Path, reason: str) -> None:
    nodes, outputs = _layer("RNN", []), ["b"]
    if reason == "another axis":
        nodes[0] = _turned("x", "t", "features")
    elif reason == "only half of it":
        nodes[-1] = _node("Relu", ["s"], ["b"])
    else:
        nodes.append(_node("Relu", ["s"], ["z"]))
        outputs.append("z")
    graph = read_the_same(_model(tmp_path, "RNN", nodes, outputs), {"x": (STEPS, FEATURES)})
    assert _kinds(graph).count("Slice") == (1 if reason == "only half of it" else 2)


def test_a_reversal_between_two_layers_belongs_to_one_of_them(tmp_path: Path) -> None:
    nodes = [
        *_layer("RNN", []),
        _node("Unsqueeze", ["b", "one"], ["u2"]),
        _node("RNN", ["u2", "r", "r"], ["y2"], hidden_size=HIDDEN),
        _node("Squeeze", ["y2", "axes"], ["s2"]),
        _turned("s2", "b2"),
    ]
    graph = read_the_same(_model(tmp_path, "RNN", nodes, ["b2"]), {"x": (STEPS, FEATURES)})
    assert _kinds(graph).count("Slice") == 1


def test_a_model_whose_nodes_are_to_stay_keeps_them(tmp_path: Path) -> None:
    path = _model(tmp_path, "RNN", _layer("RNN", []), ["b"])
    assert _kinds(read_model(path, optimize=False)).count("Slice") == 2
