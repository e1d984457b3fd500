"""What an operator may ask of the compiler; larger ones are the Host's."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import helper

from npuviz.onnx.reader import read_model
from npuviz.targets.neuroncore.compiler import compile as compiling
from npuviz.targets.neuroncore.compiler.operators.reduction import scan
from npuviz.targets.neuroncore.spec import make_spec

SPEC = make_spec()[0]


def _reason(folder: Path, shape: tuple[int, ...], operator: str = "Relu", **changes: int) -> str:
    """Why an operator of this shape, along axis 1 if it has one, goes to the Host; "" if it does not."""
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    axis = [helper.make_tensor("axis", onnx.TensorProto.INT64, [], [1])] if operator == "CumSum" else []
    node = helper.make_node(operator, ["x", *(each.name for each in axis)], ["y"])
    graph = helper.make_graph([node], "one", ends[:1], ends[1:], axis)
    path = folder / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    result = compiling.compile_graph(read_model(path), replace(SPEC, **changes))
    return next((note.text for note in result.notes if note.code == "host-operator"), "")


def test_tensors_fit_the_memory_of_a_core(tmp_path: Path) -> None:
    size = 2 * 4 * 3 * 1024
    assert _reason(tmp_path, (3, 1024), hbm_bytes=size) == ""
    assert "a core's share of HBM" in _reason(tmp_path, (3, 1024), hbm_bytes=size - 1)


def test_programs_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (256, 65536)
    assert _reason(tmp_path, shape) == ""
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "MAX_INSTRUCTIONS", 50)
        assert "more instructions than one operator may have" in _reason(tmp_path, shape)
    monkeypatch.setattr(compiling, "MAX_TRANSFERS", 50)
    assert "more transfers than one operator may have" in _reason(tmp_path, shape)


def test_running_totals_of_too_many_rows_are_refused_before_any_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_SCANS", 2)
    assert _reason(tmp_path, (256, 5), "CumSum") == ""
    assert "3 rows a partition, at most 2" in _reason(tmp_path, (257, 5), "CumSum")
