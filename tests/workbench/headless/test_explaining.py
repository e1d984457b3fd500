"""The search for a remedy goes on while there are operators to add."""

import re
from unittest.mock import patch

import onnx
import pytest
from onnx import helper

from npuviz.onnx.check.injection import Effect, Explanation
from npuviz.workbench.headless import explaining
from npuviz.workbench.headless.explaining import _Measured, _remedy, _wanted
from tests.onnx.check.machine import make_graph

NODES = [helper.make_node("Exp", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(8)]


def measured(tmp_path, needed: int, first: int = 0) -> _Measured:
    """Errors of a chain of operators, the largest from `first` on; `needed` of them explain the outputs'."""
    graph = make_graph(tmp_path, NODES, {"t0": [2]}, {"t8": onnx.TensorProto.FLOAT})
    tensors = {tensor.name: tensor.id for tensor in graph.tensors}
    effects = tuple(
        Effect(tensors[f"t{i + 1}"], f"Exp n{i}", (graph.tensors[tensors[f"t{i + 1}"]].producer,), 0.1, 1.0)
        for i in range(first, 8)
    )
    left = tuple(0.01 if count >= needed else 1.0 for count in range(len(effects) + 1))
    return _Measured(graph, Explanation(effects, left), 0.1)


def test_what_is_needed_is_tried_first(tmp_path) -> None:
    assert _wanted(measured(tmp_path, 1), ()) == ["n0"]
    assert _wanted(measured(tmp_path, 3), ()) == ["n0", "n1", "n2"]


def test_operators_that_are_kept_already_do_not_end_the_search(tmp_path) -> None:
    """The largest error may stay one of an operator in fp32: others are added, as many as there are."""
    assert _wanted(measured(tmp_path, 1), ("n0", "n1")) == ["n2", "n3"]
    everything = [f"n{i}" for i in range(8)]
    assert _wanted(measured(tmp_path, 1), everything) == []


@pytest.mark.parametrize("rights_at", [2, 8])
def test_the_search_grows_until_the_outputs_are_right(tmp_path, rights_at: int) -> None:
    found = measured(tmp_path, 1)
    tries: list[list[str]] = []

    def run(opened, names, progress):
        tries.append(names)
        right = len(names) >= rights_at
        return {
            "keep_fp32": names,
            "outputs_right": right,
            "outputs_error": 1 / len(names),
            "cycles": 9,
        }, found

    class Session:
        class machine:
            cycle = 3

    with patch.object(explaining, "_run_with", run):
        remedy = _remedy(None, Session, found, None)  # pyright: ignore[reportArgumentType]
    assert remedy is not None
    assert remedy["outputs_right"]
    assert len(remedy["keep_fp32"]) >= rights_at
    assert len(tries) <= explaining.MAX_ROUNDS


@pytest.mark.parametrize(
    ("error", "right", "words"),
    [
        (
            0.13,
            True,
            r"outputs right, off by 0.13 \(allowed 0.1, or what an output makes of its input's error\)",
        ),
        (0.09, True, "outputs right, off by 0.09; 9 cycles"),
        (0.2, False, "no remedy  with the 1 operators in fp32 .* still wrong, off by 0.2; 9 cycles"),
    ],
)
def test_a_remedy_says_which_allowance_makes_its_outputs_right(error: float, right: bool, words: str) -> None:
    remedy = {"keep_fp32": ["n0"], "outputs_right": right, "outputs_error": error, "outputs_allowed": 0.1}
    found = {"outputs_error": 1.0, "allowed": 0.1, "moved_by_a_millionth": 0.01, "operators": []}
    lines = explaining.explanation_lines({**found, "remedy": {**remedy, "cycles": 9, "cycles_before": 3}})
    assert re.search(words, lines[-1])
    assert ("keep_fp32=n0" in lines[-1]) == right


def test_outputs_that_a_millionth_of_the_inputs_moves_have_no_remedy() -> None:
    found = {
        "outputs_error": 1.0,
        "allowed": 0.1,
        "moved_by_a_millionth": 0.2,
        "operators": [],
        "remedy": None,
    }
    lines = explaining.explanation_lines(found)
    assert "no remedy" in lines[-2]
    assert "move the reference's own outputs by 0.2" in lines[-2]
    assert "--input" in lines[-1]
