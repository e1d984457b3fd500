# `npuviz run --check` on every machine that takes ONNX models: what the Host computes, and both verdicts.
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.cli.main import main
from npuviz.workbench.headless.summary_text import check_lines

TARGETS = ("systolic", "neuroncore", "rk3588")
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def _model(folder: Path, nodes: Sequence[onnx.NodeProto], inputs: Any, outputs: Any, weights: Any) -> str:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def _run(path: str, target: str, capsys: pytest.CaptureFixture[str], *extra: str) -> tuple[int, str, str]:
    code = main(["run", path, "--target", target, "--record", "none", "--check", "--json", *extra])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("target", TARGETS)
def test_host_operators_with_scalar_constants_are_right(target: str, tmp_path, capsys) -> None:
    nodes = [
        helper.make_node("Mod", ["x", "two"], ["m"], "mod", fmod=1),
        helper.make_node("Where", ["c", "m", "ten"], ["y"], "choose"),
    ]
    weights = {"two": np.array(2.0, np.float32), "ten": np.array(10.0, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [4]), "c": (BOOL, [])}, {"y": FLOAT}, weights)
    np.save(tmp_path / "x.npy", np.array([3.5, -3.5, 0.5, 9], np.float32))
    code, out, _ = _run(path, target, capsys, "--input", f"x={tmp_path / 'x.npy'}")
    check = json.loads(out)["check"]
    assert (code, check["failed"], check["end_to_end"]["failed"]) == (0, 0, 0)
    assert check["end_to_end"]["outputs_right"] is True


@pytest.mark.parametrize(
    ("operator", "target", "expected"),
    [
        *(("Gather", target, code) for target, code in (("systolic", 2), ("rk3588", 2), ("neuroncore", 3))),
        *(("GatherElements", *each) for each in (("systolic", 2), ("rk3588", 2), ("neuroncore", 3))),
    ],
)
def test_an_index_out_of_range_is_no_result(operator: str, target: str, expected: int, tmp_path, capsys):
    """The Host refuses it; where the engines gather, it is a hazard of the machine."""

    def branch(name: str) -> onnx.GraphProto:
        nodes = [helper.make_node(operator, ["x", "at"], [name], f"pick_{name}")]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, [2])])

    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch("t"), else_branch=branch("e"))
    inputs = {"x": (FLOAT, [4]), "at": (INT64, [2]), "c": (BOOL, [])}
    path = _model(tmp_path, [node], inputs, {"y": FLOAT}, {})
    np.save(tmp_path / "at.npy", np.array([1, 99]))
    code = main(["run", path, "--target", target, "--input", f"at={tmp_path / 'at.npy'}"])
    out, err = capsys.readouterr()
    assert code == expected
    if expected == 2:
        assert out == ""
        assert "choice/pick_t" in err
    else:
        assert "index 99 is" in out


def test_rows_that_are_added_to_where_there_are_none_are_a_hazard(tmp_path, capsys):
    node = helper.make_node("ScatterElements", ["x", "at", "u"], ["y"], "spread", axis=0, reduction="add")
    inputs = {"x": (FLOAT, [5, 1]), "at": (INT64, [3, 1]), "u": (FLOAT, [3, 1])}
    graph = _model(tmp_path, [node], inputs, {"y": FLOAT}, {})
    model = onnx.load(graph)
    model.opset_import[0].version = 18
    onnx.save(model, graph)
    for rows, code in (([0, -5, 4], 0), ([0, 5, -6], 3)):
        np.save(tmp_path / "at.npy", np.array(rows)[:, None])
        assert main(["run", graph, "--target", "systolic", "--input", f"at={tmp_path / 'at.npy'}"]) == code
        out = capsys.readouterr().out
        assert (": spread: index 5 is outside -5..4, and 1 more" in out) == (code == 3)
        assert ", :" not in out


def _sequence_model(folder: Path) -> str:
    """One of the pieces of x, of 1, 3 and 2 rows, and the last two of them side by side."""
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["pieces"], "split", axis=0),
        helper.make_node("SequenceAt", ["pieces", "k"], ["piece"], "pick"),
        helper.make_node("ReduceSum", ["piece"], ["y"], "add", keepdims=1),
        helper.make_node("SequenceErase", ["pieces", "first"], ["rest"], "drop"),
        helper.make_node("ConcatFromSequence", ["rest"], ["z"], "join", axis=0),
    ]
    weights = {"sizes": np.array([1, 3, 2]), "first": np.array(0)}
    return _model(folder, nodes, {"x": (FLOAT, [6, 2]), "k": (INT64, [])}, {"y": FLOAT, "z": FLOAT}, weights)


@pytest.mark.parametrize("target", TARGETS)
def test_sequences_of_tensors_of_several_shapes_stay_on_the_host(target: str, tmp_path, capsys) -> None:
    np.save(tmp_path / "k.npy", np.array(2))
    code, out, _ = _run(_sequence_model(tmp_path), target, capsys, "--input", f"k={tmp_path / 'k.npy'}")
    check = json.loads(out)["check"]
    assert (code, check["end_to_end"]["outputs_right"]) == (0, True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_host_operator_that_fails_stops_the_run(target: str, tmp_path, capsys) -> None:
    np.save(tmp_path / "k.npy", np.array(99))
    path = _sequence_model(tmp_path)
    code = main(["run", path, "--target", target, "--input", f"k={tmp_path / 'k.npy'}"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "pick" in err


def test_tensors_between_host_operators_keep_their_type_on_rk3588(tmp_path, capsys) -> None:
    """-65,840 is infinite in fp16."""
    nodes = [
        helper.make_node("Mod", ["x", "k"], ["m"], "mod", fmod=1),
        helper.make_node("Cast", ["m"], ["y"], "cast", to=onnx.TensorProto.INT32),
    ]
    weights = {"k": np.array(100000.0, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [4])}, {"y": onnx.TensorProto.INT32}, weights)
    np.save(tmp_path / "x.npy", np.array([-65840, 65841, 3.5, -265841], np.float32))
    code, out, _ = _run(path, "rk3588", capsys, "--input", f"x={tmp_path / 'x.npy'}")
    check = json.loads(out)["check"]
    assert (code, check["end_to_end"]["classes"]["equal"]) == (0, 2)


def _lifted(folder: Path, factor: float) -> str:
    """x * factor * (1 / factor): rounding or the range of a coarse type decides what is left."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["large"], "lift"),
        helper.make_node("Mul", ["large", "r"], ["y"], "drop"),
        helper.make_node("Relu", ["x"], ["z"], "other"),
    ]
    weights = {"k": np.array(factor, np.float32), "r": np.array(1 / factor, np.float32)}
    return _model(folder, nodes, {"x": (FLOAT, [1, 16, 4, 4])}, {"y": FLOAT, "z": FLOAT}, weights)


def test_an_overflow_of_fp16_fails_is_explained_and_has_a_remedy(tmp_path, capsys) -> None:
    path = _lifted(tmp_path, 60000.0)
    code, out, _ = _run(path, "rk3588", capsys, "--explain-error")
    summary = json.loads(out)
    check, explained = summary["check"], summary["explain_error"]
    assert (code, check["failed"], check["end_to_end"]["failed"]) == (1, 0, 1)
    assert [each["tensor"] for each in check["findings"]] == ["y"]
    assert check["findings"][0]["operator"] == "Mul lift"
    assert "overflow of fp16's range: large reaches" in check["findings"][0]["cause"]
    assert explained["operators"][0]["operator"] == "Mul lift"
    remedy = explained["remedy"]
    assert (remedy["keep_fp32"], remedy["outputs_right"]) == (["lift", "drop"], True)
    assert remedy["cycles"] > 0
    code, out, _ = _run(path, "rk3588", capsys, "--set", "keep_fp32=lift,drop")
    assert (code, json.loads(out)["check"]["end_to_end"]["outputs_right"]) == (0, True)


def test_outputs_that_hang_on_a_millionth_of_the_inputs_have_no_remedy(tmp_path, capsys) -> None:
    """What is left of a sum that cancels: the reference itself has few digits of it."""
    nodes = [
        helper.make_node("Add", ["x", "k"], ["large"], "lift"),
        helper.make_node("Sub", ["large", "x"], ["near"], "drop"),
        helper.make_node("Sub", ["near", "k"], ["left"], "cancel"),
        helper.make_node("Mul", ["left", "m"], ["y"], "widen"),
    ]
    weights = {"k": np.array(0.3, np.float32), "m": np.array(1e6, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [1, 16, 4, 4])}, {"y": FLOAT}, weights)
    code, out, _ = _run(path, "rk3588", capsys, "--explain-error")
    explained = json.loads(out)["explain_error"]
    assert code == 1
    assert explained["moved_by_a_millionth"] > explained["allowed"]
    assert explained["remedy"] is None


def test_rounding_to_bf16_fails_is_explained_and_has_a_remedy(tmp_path, capsys) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "eye"], ["p"], "product"),
        helper.make_node("Add", ["p", "k"], ["large"], "lift"),
        helper.make_node("MatMul", ["large", "eye"], ["q"], "second"),
        helper.make_node("Sub", ["q", "k"], ["y"], "drop"),
    ]
    weights = {"eye": np.eye(32, dtype=np.float32), "k": np.array(300.0, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [16, 32])}, {"y": FLOAT}, weights)
    code, out, _ = _run(path, "neuroncore", capsys, "--set", "dtype=bf16", "--explain-error")
    summary = json.loads(out)
    assert (code, summary["check"]["failed"]) == (1, 0)
    assert "bf16 rounding" in summary["check"]["findings"][0]["cause"]
    remedy = summary["explain_error"]["remedy"]
    assert remedy["outputs_right"]
    assert "product" in remedy["keep_fp32"] or "lift" in remedy["keep_fp32"]


def test_operators_that_are_kept_run_in_fp32_on_systolic(tmp_path, capsys) -> None:
    path = _lifted(tmp_path, 3.0)
    _, out, _ = _run(path, "systolic", capsys)
    coarse = json.loads(out)
    code, out, _ = _run(path, "systolic", capsys, "--set", "keep_fp32=large,y,other")
    kept = json.loads(out)
    assert code == 0
    # The Host alone touches the input, too: no core reads it in bf16.
    assert kept["check"]["end_to_end"]["max_rel_err"] < 1e-6 < coarse["check"]["end_to_end"]["max_rel_err"]
    assert [each["text"] for each in kept["notes"] if "keep_fp32" in each["text"]]
    assert kept["cycles"] > coarse["cycles"]


def test_a_name_that_nothing_has_is_refused(tmp_path, capsys) -> None:
    path = _lifted(tmp_path, 2.0)
    for target in TARGETS:
        assert main(["run", path, "--target", target, "--set", "keep_fp32=lifd"]) == 2
        assert "close: lift" in capsys.readouterr().err


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("has_scores", [True, False])
def test_outputs_of_text_are_counted_as_not_compared(has_scores: bool, target: str, tmp_path, capsys) -> None:
    """A check that could compare no output at all has not passed."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("ArgMax", ["p"], ["c"], axis=1, keepdims=0),
        helper.make_node(
            "LabelEncoder",
            ["c"],
            ["label"],
            domain="ai.onnx.ml",
            keys_int64s=[0, 1],
            values_strings=["a", "b"],
        ),
    ]
    outputs = {"label": onnx.TensorProto.STRING} | ({"p": FLOAT} if has_scores else {})
    path = _model(tmp_path, nodes, {"x": (FLOAT, [3, 2])}, outputs, {})
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    onnx.save(model, path)
    code, out, _ = _run(path, target, capsys)
    check = json.loads(out)["check"]
    assert code == 0
    assert check["end_to_end"]["outputs_not_compared"] == ["label"]
    assert check["end_to_end"]["outputs_right"] is (True if has_scores else None)
    lines = check_lines(check)
    word = "passed" if has_scores else "not decided, since no output can be compared"
    assert lines[0] == f"  check     {word}, {check['tensors']} tensors compared, 1 output not compared"
    assert ("end to end  passed" in lines[1]) == has_scores


def test_a_model_that_refuses_random_inputs_asks_for_them(tmp_path, capsys) -> None:
    """The shape depends on `sizes`, and what was drawn for it makes the innermost node fail."""
    nodes = [
        helper.make_node("Mul", ["sizes", "large"], ["wide"]),
        helper.make_node("Reshape", ["x", "wide"], ["y"], "fold"),
    ]
    inputs = {"x": (FLOAT, [3, 2]), "sizes": (INT64, [2])}
    path = _model(tmp_path, nodes, inputs, {"y": FLOAT}, {"large": np.array([40, 50])})
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    code, _, err = _run(path, "systolic", capsys, "--input", f"x={tmp_path / 'x.npy'}")
    assert code == 2
    assert "Reshape fold: " in err
    assert "ONNXRuntimeError" not in err
    assert err.rstrip().endswith("give those that it expects: --input sizes=FILE.npy")


def test_a_model_that_no_input_makes_run_asks_for_none(tmp_path, capsys) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("BeamSearch", ["a"], ["y"], "beam", domain="com.microsoft"),
    ]
    path = _model(tmp_path, nodes, {"x": (FLOAT, [2, 8])}, {"y": FLOAT}, {})
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    code, _, err = _run(path, "systolic", capsys)
    assert (code, "Error Node(beam)" in err, "--input" in err) == (2, True, False)


@pytest.mark.parametrize("target", TARGETS)
def test_random_numbers_are_named_and_decide_nothing(target: str, tmp_path, capsys) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], "noise"),
        helper.make_node("Add", ["x", "n"], ["y"], "mix"),
    ]
    path = _model(tmp_path, nodes, {"x": (FLOAT, [2, 8])}, {"y": FLOAT}, {})
    code, out, _ = _run(path, target, capsys)
    check = json.loads(out)["check"]
    reasons = {each["tensor"]: each["reason"] for each in check["not_compared"]}
    assert (code, check["end_to_end"]["outputs_right"]) == (0, None)
    assert (
        reasons["n"]
        == "random numbers, drawn by RandomNormalLike: make them an input of the model to compare"
    )
    assert reasons["y"].startswith("depending on random numbers")
