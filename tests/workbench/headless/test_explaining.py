"""The search for a remedy goes on while there are operators to add."""

import re
from unittest.mock import patch

import onnx
import pytest
from onnx import helper

from npuviz.onnx.check.injection import Effect, Explanation
from npuviz.workbench.headless import explaining
from npuviz.workbench.headless.allowance import Allowance, OutOfTime, Steps
from npuviz.workbench.headless.explaining import _Measured, _remedy, _wanted
from tests.onnx.check.machine import make_graph

NODES = [helper.make_node("Exp", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(8)]

FOUND = {
    "outputs_error": 1.0,
    "outputs_error_measured": 2.0,
    "outputs_error_of_inputs_and_weights": None,
    "allowed": 0.1,
    "operators": [],
    "operators_tried": 3,
    "operators_untried": 0,
    "results_unread": 0,
    "remedy": None,
    "runs": 6,
    "runs_end": "6 runs are the most",
    "seconds": 9.0,
    "seconds_allowed": 60.0,
}


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


def test_readers_of_rounded_weights_are_tried_where_no_operator_is_off(tmp_path) -> None:
    graph = measured(tmp_path, 1).graph
    given = _Measured(graph, Explanation((), (0.0,), given=0.2, readers=(1, 3)), 0.1)
    assert _wanted(given, ()) == ["n1", "n3"]
    assert _wanted(given, ("n1", "n3")) == []
    assert _wanted(_Measured(graph, Explanation((), (0.0,), given=0.0, readers=(1, 3)), 0.1), ()) == []


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

    search = explaining.Search()
    with patch.object(explaining, "_run_with", run):
        remedy = _remedy(None, Session, found, Allowance(60.0), search)  # pyright: ignore[reportArgumentType]
    assert remedy is not None
    assert remedy["outputs_right"]
    assert len(remedy["keep_fp32"]) >= rights_at
    assert len(tries) <= explaining.MAX_ROUNDS


def test_a_search_that_runs_out_of_time_gives_what_it_found(tmp_path) -> None:
    """A clock of its own: each run takes 4 of 10 seconds, so the third does not end."""
    found, search, now = measured(tmp_path, 1), explaining.Search(), [0.0]
    allowance = Allowance(10.0, clock=lambda: now[0])

    def run(opened, names, allowed):
        now[0] += 4.0
        allowed.report(-1.0, "running")
        return {
            "keep_fp32": names,
            "outputs_right": False,
            "outputs_error": 1 / len(names),
            "cycles": 9,
        }, found

    class Session:
        class machine:
            cycle = 3

    with patch.object(explaining, "_run_with", run):
        remedy = _remedy(None, Session, found, allowance, search)  # pyright: ignore[reportArgumentType]
    assert remedy is not None
    assert (remedy["keep_fp32"], search.runs, search.end) == (["n0", "n1"], 2, explaining.OUT_OF_TIME)
    assert allowance.spent() == 12.0


def test_a_part_of_an_allowance_is_one_of_what_is_left() -> None:
    now = [0.0]
    whole = Allowance(10.0, clock=lambda: now[0])
    now[0] = 4.0
    part = whole.part(0.5)
    assert (part.seconds, part.spent(), part.goes_on()) == (3.0, 0.0, True)
    now[0] = 7.0
    assert (part.goes_on(), whole.goes_on()) == (False, True)
    with pytest.raises(OutOfTime, match="3 s of the processor"):
        part.report(0.5)


@pytest.mark.parametrize(
    ("error", "right", "words"),
    [
        (
            0.13,
            True,
            r"outputs right, off by 0.13 \(allowed 0.1, or what an output makes of its input's error\)",
        ),
        (0.09, True, "outputs right, off by 0.09; 9 cycles"),
        (0.2, False, "no remedy found  with the 1 operators in fp32 .* still wrong, off by 0.2; 9 cycles"),
    ],
)
def test_a_remedy_says_which_allowance_makes_its_outputs_right(error: float, right: bool, words: str) -> None:
    remedy = {"keep_fp32": ["n0"], "outputs_right": right, "outputs_error": error, "outputs_allowed": 0.1}
    found = {**FOUND, "moved_by_a_millionth": 0.01}
    lines = explaining.explanation_lines({**found, "remedy": {**remedy, "cycles": 9, "cycles_before": 3}})
    assert re.search(words, lines[-1])
    assert ("keep_fp32=n0" in lines[-1]) == right


def test_outputs_that_a_millionth_of_the_inputs_moves_have_no_remedy() -> None:
    found = {**FOUND, "moved_by_a_millionth": 0.2}
    lines = explaining.explanation_lines(found)
    assert "no remedy" in lines[-2]
    assert "move the reference's own outputs by 0.2" in lines[-2]
    assert "--input" in lines[-1]


def test_what_was_not_tried_is_counted_and_what_tries_more_is_named() -> None:
    cut = {"operators_untried": 5, "results_unread": 7, "runs": 0, "runs_end": explaining.OUT_OF_TIME}
    lines = explaining.explanation_lines({**FOUND, **cut, "moved_by_a_millionth": 0.0})
    assert "3 operators' own errors make the outputs 1 of their largest magnitude wrong" in lines[1]
    assert "they are 2 wrong (allowed 0.1)" in lines[1]
    assert "3 operators one by one, and 0 runs with some in fp32 (the time was over)" in lines[2]
    assert "not tried: 5 operators" in lines[2]
    assert "not looked at: 7 results" in lines[2]
    assert "9 s of the processor of 60 allowed; --explain-seconds 240 tries more" in lines[2]
    assert "no remedy found  no run" in lines[3]
    given = {"outputs_error_of_inputs_and_weights": 0.5, "moved_by_a_millionth": 0.0}
    assert "alone make the outputs 0.5 wrong" in explaining.explanation_lines({**FOUND, **given})[2]
    whole = explaining.explanation_lines({**FOUND, "moved_by_a_millionth": 0.0})
    assert "not tried" not in whole[2]
    assert "--explain-seconds" not in whole[2]


def test_steps_that_would_not_end_in_time_are_not_begun() -> None:
    """Loops are told apart: what one takes for a step says nothing of the other's."""
    now = [0.0]
    steps = Steps(Allowance(100.0, clock=lambda: now[0]))
    done: list[float] = []
    for length in (5.0, 20.0, 3.0, 2.0, 1.0, 1.0):
        if not steps.goes_on(0.5):
            break
        now[0] += length
        done.append(length)
    # 30 s are gone, and another 20 would reach the half.
    assert done == [5.0, 20.0, 3.0, 2.0]
    assert steps.goes_on(1.0)
    now[0] += 45.0
    assert not steps.goes_on(1.0)
