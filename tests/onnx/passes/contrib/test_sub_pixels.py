"""Transposed convolutions and pads, written out, compute what ONNX Runtime computes of them whole."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.cli.main import main
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference

ALL = ModelForm(whole=lambda _: False)


def _save(
    folder: Path, node: onnx.NodeProto, shape: tuple[int, ...], opset: int = 17, /, **known: np.ndarray
) -> Path:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _assert_same(path: Path, shape: tuple[int, ...]) -> list[str]:
    """Compare both forms of a model; returns the operators of the written one."""
    x = {"x": _floats(*shape)}
    whole, written = read_model(path, optimize=False), read_model(path, form=ALL)
    expected = run_reference(whole, x, whole.outputs)[whole.outputs[0]]
    found = run_reference(written, x, written.outputs)[written.outputs[0]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return [node.op_type for node in written.nodes]


@pytest.mark.parametrize(
    ("size", "kernel", "attributes"),
    [
        ((5, 4), (2, 2), {"strides": [2, 2]}),
        ((5, 4), (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((5, 4), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((5, 4), (5, 3), {"strides": [3, 2], "pads": [0, 2, 1, 0]}),
        ((5, 4), (3, 2), {"strides": [2, 2], "dilations": [2, 3]}),
        ((5, 4), (4, 4), {"strides": [2, 2], "group": 2}),
        ((5, 4), (4, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((5, 4), (4, 4), {"strides": [3, 3], "auto_pad": "SAME_UPPER"}),
        ((5, 4), (4, 4), {"strides": [3, 3], "auto_pad": "SAME_LOWER"}),
        ((5, 4), (3, 3), {"strides": [2, 2], "output_shape": [10, 8]}),
        ((5, 4), (3, 3), {"strides": [1, 1]}),
        ((5, 4), (2, 2), {"strides": [3, 3]}),
        ((5, 4), (2, 2), {"strides": [3, 3], "output_padding": [2, 1]}),
        ((9,), (16,), {"strides": [8], "pads": [4, 4]}),
        ((2, 3, 4), (3, 2, 2), {"strides": [2, 1, 2]}),
    ],
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_transposed_convolution_is_a_plain_one(
    size: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any], has_bias: bool, tmp_path: Path
) -> None:
    known = {"w": _floats(4, 3, *kernel)}
    if has_bias:
        known["b"] = _floats(3 * attributes.get("group", 1))
    node = helper.make_node("ConvTranspose", ["x", *known], ["y"], "up", **attributes)
    written = _assert_same(_save(tmp_path, node, (2, 4, *size), **known), (2, 4, *size))
    assert "Conv" in written
    assert "ConvTranspose" not in written


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11])
def test_old_operator_sets(opset: int, tmp_path: Path) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2], pads=[1, 0, 1, 0])
    written = _assert_same(_save(tmp_path, node, (2, 4, 5, 4), opset, w=_floats(4, 3, 3, 3)), (2, 4, 5, 4))
    assert "Conv" in written
    assert "Slice" in written
    assert "ConvTranspose" not in written


def test_more_padding_than_a_kernel_reaches_stays_whole(tmp_path: Path) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2], pads=[2, 2])
    path = _save(tmp_path, node, (1, 4, 6), w=_floats(4, 3, 1))
    assert _assert_same(path, (1, 4, 6)) == ["ConvTranspose"]


def test_a_pad_without_a_value_has_one(tmp_path: Path) -> None:
    node = helper.make_node("Pad", ["x", "p"], ["y"], "pad")
    path = _save(tmp_path, node, (2, 3), p=np.array([1, 0, 0, 2]))
    assert _assert_same(path, (2, 3)) == ["Pad"]
    (pad,) = read_model(path, form=ALL).nodes
    assert len(pad.inputs) == 3


@pytest.mark.parametrize(
    ("name", "target"),
    [("up", "systolic"), ("up", "neuroncore"), ("up", "rk3588"), ("pad", "systolic"), ("pad", "neuroncore")],
)
def test_no_machine_sends_them_to_the_host(name: str, target: str, tmp_path: Path, capsys) -> None:
    known = {"w": _floats(8, 6, 2, 2)} if name == "up" else {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    kind = "ConvTranspose" if name == "up" else "Pad"
    more: dict[str, Any] = {"strides": [2, 2]} if name == "up" else {}
    node = helper.make_node(kind, ["x", *known], ["y"], name, **more)
    path = _save(tmp_path, node, (1, 8, 5, 4), **known)
    code = main(["run", str(path), "--target", target, "--check"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "on Host" not in out
