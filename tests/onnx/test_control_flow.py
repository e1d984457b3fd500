"""Branches and loops that the inputs of a run decide are written out, and said to be those of this run."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.passes.optimization import KEEP_NODES
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from tests.sweeps import quick

from .cases import random, save, value

pytestmark = pytest.mark.usefixtures("observed_here")

RATE = np.array(16000, np.int64)


def _branch(name: str, nodes: list[onnx.NodeProto], weight: float) -> onnx.GraphProto:
    kept = numpy_helper.from_array(np.full(4, weight, np.float32), "w")
    return helper.make_graph(nodes, name, [], [value(f"{name}_out", [4])], [kept])


def _by_rate(inner: bool = False) -> list[onnx.NodeProto]:
    """y = 2 x at 16 kHz, else 3 x, or with `inner` another If: 5 x where x has a positive sum, else 7 x."""
    then = _branch("a", [helper.make_node("Mul", ["x", "w"], ["a_out"])], 2)
    other = _branch("b", [helper.make_node("Mul", ["x", "w"], ["b_out"])], 3)
    if inner:
        choice = [
            helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
            helper.make_node("Constant", [], ["zero"], value_float=0.0),
            helper.make_node("Greater", ["s", "zero"], ["c"]),
            helper.make_node(
                "If", ["c"], ["b_out"],
                then_branch=_branch("d", [helper.make_node("Mul", ["x", "w"], ["d_out"])], 5),
                else_branch=_branch("e", [helper.make_node("Mul", ["x", "w"], ["e_out"])], 7),
            ),
        ]  # fmt: skip
        other = helper.make_graph(choice, "b", [], [value("b_out", [4])])
    return [
        helper.make_node("Equal", ["rate", "wide"], ["is_wide"]),
        helper.make_node("If", ["is_wide"], ["y"], "pick", then_branch=then, else_branch=other),
    ]


def _saved(tmp_path, nodes):
    inputs = [value("x", [4]), value("rate", [], TensorProto.INT64)]
    return save(tmp_path / "m.onnx", nodes, inputs, [value("y", [4])], {"wide": RATE})


@quick(every=3)
@pytest.mark.parametrize(
    ("rate", "sign", "inner", "factor"),
    [(16000, 1, False, 2), (8000, 1, False, 3), (8000, 1, True, 5), (8000, -1, True, 7), (16000, 1, True, 2)],
)
def test_the_branch_that_this_run_takes_replaces_the_operator(tmp_path, rate, sign, inner, factor):
    x = sign * np.abs(random(4))
    given = {"x": x, "rate": np.array(rate, np.int64)}
    graph = read_model(_saved(tmp_path, _by_rate(inner)), given=Given(given))
    assert [node.op_type for node in graph.nodes] == ["Mul"]
    np.testing.assert_array_equal(run_reference(graph, given, graph.outputs)[graph.outputs[0]], factor * x)
    branch = "then_branch" if rate == 16000 else "else_branch"
    assert f"If pick: its {branch}, which is that of a run with these inputs" in graph.assumptions[0]


def test_a_condition_that_is_an_input_itself_needs_no_run(tmp_path, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr("npuviz.onnx.control_flow.observe", never)
    nodes = [helper.make_node("If", ["c"], ["y"], "pick", then_branch=_by_rate()[1].attribute[1].g,
                              else_branch=_by_rate()[1].attribute[0].g)]  # fmt: skip
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [4]), value("c", [], TensorProto.BOOL)], [value("y", [4])]
    )
    graph = read_model(path, given=Given({"c": np.array(False)}))
    assert [node.op_type for node in graph.nodes] == ["Mul"]


def test_the_turns_of_a_loop_that_this_run_makes_are_written_out(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "two"], ["s2"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [4])],
        [value("on", [], TensorProto.BOOL), value("s2", [4])],
    )
    nodes = [
        helper.make_node("Add", ["rate", "wide"], ["turns"]),
        helper.make_node("Loop", ["turns", "", "x"], ["y"], "twice", body=body),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [4]), value("rate", [], TensorProto.INT64)],
        [value("y", [4])], {"wide": np.array(1, np.int64), "two": np.array(2, np.float32)},
    )  # fmt: skip
    x = random(4)
    given = {"x": x, "rate": np.array(2, np.int64)}
    graph = read_model(path, given=Given(given))
    assert [node.op_type for node in graph.nodes] == ["Mul"] * 3
    np.testing.assert_array_equal(run_reference(graph, given, graph.outputs)[graph.outputs[0]], 8 * x)
    assert any("the turns of 1 loops: those of a run" in text for text in graph.assumptions)


def test_a_model_that_wants_its_nodes_kept_keeps_them(tmp_path):
    path = _saved(tmp_path, _by_rate())
    model = onnx.load(path)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEEP_NODES
    onnx.save(model, path)
    assert [node.op_type for node in read_model(path).nodes] == ["Equal", "If"]


def test_what_asks_for_an_observed_shape_is_constant(tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Shape", ["places"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["count"]),
        helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["places"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "number"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [6])], [value("y", None)], {"one": np.array(1)})
    x = np.array([1, 0, 2, 0, 3, 0], np.float32)
    graph = read_model(path, given=Given({"x": x}))
    assert [node.op_type for node in graph.nodes] == ["NonZero", "Cast", "Mul"]
    found = run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]]
    np.testing.assert_array_equal(found, [[0, 6, 12]])
    assert len(graph.assumptions) == 1
