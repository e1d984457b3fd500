"""Models that cannot be run to know their shapes: one line that names the node, and what to do."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.errors import FormatError, UsageError
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.run_limit import LIMIT_VARIABLE, limit_seconds
from tests.onnx.cases import save, value


def endless(path: Path, is_gathering: bool) -> Path:
    """A Loop whose condition stays true, with the results of all turns or without."""
    outputs = [value("c2", [], TensorProto.BOOL), value("s2", [4])] + (
        [value("all", [4])] if is_gathering else []
    )
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "one"], ["s2"]),
            helper.make_node("Identity", ["c"], ["c2"]),
            helper.make_node("Identity", ["s2"], ["all"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [4])],
        outputs,
        [numpy_helper.from_array(np.zeros(4, np.float32), "one")],
    )
    made = ["y", "ys"] if is_gathering else ["y"]
    loop = helper.make_node("Loop", ["", "t", "x"], made, "forever", body=body)
    results = [value("y", [4])] + ([value("z", ["n", 4])] if is_gathering else [])
    nodes = [loop, helper.make_node("Relu", ["ys"], ["z"])] if is_gathering else [loop]
    return save(path / "m.onnx", nodes, [value("x", [4])], results, {"t": np.array(True)})


def _read_and_run(path: Path) -> None:
    graph = read_model(path)
    run_reference(graph, draw_inputs(graph, {}), graph.outputs)


@pytest.mark.parametrize("is_gathering", [False, True])
def test_a_loop_that_never_ends(tmp_path: Path, is_gathering: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "0.7" if is_gathering else "0.1")
    path = endless(tmp_path, is_gathering)
    with pytest.raises(FormatError, match=f"Loop forever did not end .*{LIMIT_VARIABLE}"):
        _read_and_run(path)


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan"])
def test_a_limit_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, text)
    with pytest.raises(UsageError, match="expected seconds"):
        limit_seconds()


@pytest.mark.parametrize("domain", ["com.microsoft", "my.company"])
def test_an_operator_that_nobody_defines(tmp_path: Path, domain: str) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("FancyAttention", ["a"], ["b"], "layer/fancy", domain=domain),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2])], [value("y", [2])], domains={domain: 1})
    with pytest.raises(FormatError, match=f"node layer/fancy: .*found {domain}.FancyAttention"):
        read_model(path)
