"""Operators that nobody has, files of old versions, and observing shapes under the caller's limit."""

import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import runtime_message
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from tests.onnx.cases import random, save, value


def model_of(tmp_path, node, *, opset=17):
    return save(tmp_path / "m.onnx", [node], [value("x", [3])], [value("y", [3])], opset=opset)


@pytest.mark.parametrize(
    ("operator", "opset", "words"),
    [
        ("Odd", 17, "node odd: expected an operator of opset 17.* found Odd; .*operators of the standard"),
        ("Gelu", 12, "node odd: expected an operator of opset 12.* found Gelu; .*opset from 20"),
    ],
)
def test_the_node_of_an_unknown_operator_and_what_to_do(tmp_path, operator, opset, words):
    path = model_of(tmp_path, helper.make_node(operator, ["x"], ["y"], name="odd"), opset=opset)
    with pytest.raises(FormatError, match=words):
        read_model(path)


def test_an_unknown_operator_in_a_branch(tmp_path):
    body = helper.make_graph([helper.make_node("Odd", ["x"], ["b"], name="in")], "b", [], [value("b", [3])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    path = save(tmp_path / "m.onnx", [node], [value("x", [3]), condition], [value("y", [3])])
    with pytest.raises(FormatError, match=r"node in: .* found Odd"):
        read_model(path)


def test_an_operator_of_a_foreign_domain_with_shapes_loads_and_says_why_it_does_not_run(tmp_path):
    path = model_of(tmp_path, helper.make_node("Odd", ["x"], ["y"], domain="maker"))
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("maker", 1))
    path.write_bytes(model.SerializeToString())
    graph = read_model(path)
    with pytest.raises(FormatError, match=r"no operator maker\.Odd: export .* operators of the standard"):
        run_reference(graph, {"x": random(3)}, graph.outputs)


def test_other_messages_of_the_runtime_stay():
    assert runtime_message("Fatal error: something else") == "Fatal error: something else"


def test_weights_of_old_files_need_not_be_inputs(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [3])],
        [value("y", [3])],
        {"w": random(3)},
    )
    model = onnx.load(path)
    model.ir_version = 3
    path.write_bytes(model.SerializeToString())
    graph = read_model(path)
    x, w = random(3), onnx.numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_allclose(run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]], x + w)


def test_shapes_are_observed_under_a_limit_that_the_caller_may_not_raise(tmp_path):
    node = helper.make_node("NonZero", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", [3])], [value("y", None, TensorProto.INT64)])
    code = (
        "import resource, sys; from pathlib import Path; from npuviz.onnx.reader import read_model;"
        f"resource.setrlimit(resource.RLIMIT_AS, ({6 << 30}, {6 << 30}));"
        "print(read_model(Path(sys.argv[1])).tensors[-1].shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "(1, 3)", done.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY
