"""Damaged models: a FormatError of one line, never another exception, a hang or a crash."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from npuviz.base.errors import FormatError
from npuviz.onnx.reader import read_model
from tests.onnx.cases import convolution, save, value
from tests.sweeps import examples


def read(path: Path, data: bytes, *, optimize: bool) -> bool:
    """Whether the bytes are a model; anything but a FormatError of one line fails the test."""
    path.write_bytes(data)
    try:
        graph = read_model(path, optimize=optimize)
    except FormatError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")
        return False
    assert graph.outputs
    return True


@pytest.mark.parametrize("optimize", [False, True])
def test_cut_at_every_byte(tmp_path, optimize):
    path = convolution(tmp_path / "m.onnx")
    whole = path.read_bytes()
    accepted = [end for end in range(len(whole)) if read(path, whole[:end], optimize=optimize)]
    assert accepted == []
    assert read(path, whole, optimize=optimize)


@examples(80, 300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes(tmp_path, data):
    path = convolution(tmp_path / "m.onnx")
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read(path, bytes(damaged), optimize=data.draw(st.booleans()))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_random_bytes_are_no_model(tmp_path, data):
    assert not read(tmp_path / "m.onnx", data, optimize=True)


def relu(first: str, second: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [first], [second])


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([relu("a", "b"), relu("b", "a"), relu("x", "y")], id="cycle"),
        pytest.param([relu("x", "h"), relu("x", "h"), relu("h", "y")], id="tensor written twice"),
        pytest.param([relu("x", "x"), relu("x", "y")], id="input written"),
        pytest.param([relu("nowhere", "y")], id="unknown input"),
        pytest.param([relu("x", "h")], id="output never written"),
        pytest.param([helper.make_node("Nonsense", ["x"], ["y"])], id="unknown operator"),
        pytest.param([helper.make_node("Relu", ["x", "x", "x"], ["y"])], id="too many inputs"),
        pytest.param([helper.make_node("Conv", ["x"], ["y"])], id="too few inputs"),
        pytest.param([helper.make_node("Relu", ["x"], ["y"], domain="other")], id="undeclared domain"),
    ],
)
@pytest.mark.parametrize("optimize", [False, True])
def test_broken_graphs(tmp_path, nodes, optimize):
    path = save(tmp_path / "m.onnx", nodes, [value("x", [4])], [value("y", [4])])
    assert not read(path, path.read_bytes(), optimize=optimize)


def test_the_same_weight_twice(tmp_path):
    path = convolution(tmp_path / "m.onnx")
    model = onnx.load(path)
    model.graph.initializer.append(model.graph.initializer[0])
    assert not read(path, model.SerializeToString(), optimize=True)


@pytest.mark.parametrize("dims", [[1000000, 1000000], [-1, 4], [3, 3], [2**62, 4]])
def test_weights_whose_shape_lies(tmp_path, dims):
    path = convolution(tmp_path / "m.onnx")
    model = onnx.load(path)
    model.graph.initializer[0].dims[:] = dims
    for optimize in (False, True):
        assert not read(path, model.SerializeToString(), optimize=optimize)


def test_files_that_are_no_models(tmp_path):
    for text in (b"", b"hello", b"\x7fELF", b"{}", b"PK\x03\x04" * 50, bytes(1000)):
        assert not read(tmp_path / "m.onnx", text, optimize=True)
    with pytest.raises(FormatError):
        read_model(tmp_path / "missing.onnx")
    with pytest.raises(FormatError):
        read_model(tmp_path)


@pytest.mark.parametrize("field", ["opset", "ir"])
def test_models_of_the_future_are_told_to_be_exported_anew(tmp_path, field):
    path = save(tmp_path / "m.onnx", [relu("x", "y")], [value("x", [4])], [value("y", [4])])
    model = onnx.load(path)
    if field == "opset":
        model.opset_import[0].version = 999
    else:
        model.ir_version = 999
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match=r"999.*export"):
        read_model(path)


def test_a_light_weight_of_absurd_size(tmp_path):
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["w"]), helper.make_node("Add", ["x", "w"], ["y"])]
    shape = np.array([1 << 20, 1 << 20, 1 << 20], np.int64)
    path = save(tmp_path / "m.onnx", nodes, [value("x", [1])], [value("y", None)], {"s": shape})
    for optimize in (False, True):
        assert not read(path, path.read_bytes(), optimize=optimize)
