"""A DynamicQuantizeLSTM of many weights: the Host's where time counts, in floats where its share does."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.targets.rk3588.load import loader
from tests.targets.rk3588.compiler.models import checked

HIDDEN = 48


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """One layer between two products."""
    numbers = np.random.default_rng(4)
    held = {
        "w": numbers.integers(0, 255, (1, 16, 4 * HIDDEN)).astype(np.uint8),
        "r": numbers.integers(0, 255, (1, HIDDEN, 4 * HIDDEN)).astype(np.uint8),
        "b": numbers.normal(0, 0.1, (1, 8 * HIDDEN)).astype(np.float32),
        **{name: np.full(1, 0.004, np.float32) for name in ("ws", "rs")},
        **{name: np.full(1, 128, np.uint8) for name in ("wz", "rz")},
        "m": numbers.normal(0, 0.2, (16, 16)).astype(np.float32),
        "n": numbers.normal(0, 0.2, (HIDDEN, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["made"]),
        helper.make_node(
            "DynamicQuantizeLSTM", ["made", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["all"],
            domain="com.microsoft", hidden_size=HIDDEN,
        ),
        helper.make_node("MatMul", ["all", "n"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (12, 1, 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (12, 1, 1, 8))],
        [numpy_helper.from_array(values, name) for name, values in held.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "dynamic.onnx")
    return tmp_path / "dynamic.onnx"


def test_its_size_and_the_share_decide(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_MOST_WEIGHTS", 100)
    on_host = {"DynamicQuantizeLSTM"}
    settings = {"host_price": "10"}
    floats = checked(path, settings)
    assert not floats.nodes_on_host()
    (text,) = [note.text for note in floats.program.notes if note.code == "partition"]
    assert "--set partition=least-time" in text
    for other in ({"partition": "least-time"}, {"host_price": "1"}, {"host_share_others": "1"}):
        finished = checked(path, {**settings, **other})
        assert finished.nodes_on_host() == on_host
        assert not [note for note in finished.program.notes if note.code == "partition"]
    assert not checked(path, {**settings, "partition": "most-npu"}).nodes_on_host()
    monkeypatch.setattr(loader, "_MOST_AT_A_PRICE", 100)
    assert checked(path, settings).nodes_on_host() == on_host
