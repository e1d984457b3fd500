"""Tensors of three dimensions lie as their operators want them, also where a graph has both kinds."""

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from npuviz.onnx.reader import read_model
from npuviz.targets.rk3588.compiler.row_layout import tensors_of_rows
from tests.targets.rk3588.compiler.models import Model, on_npu


def _sequences_and_rows() -> Model:
    """A convolution over 24 places, then products over the channels of each place, and back."""
    model = Model(1, 16, 24)
    found = model.add("Relu", model.conv("x", 16, 32, 3, pads=[1, 1]))
    rows = model.add("Transpose", found, perm=[0, 2, 1])
    rows = model.add("Relu", model.add("MatMul", rows, model.weight(32, 48)))
    rows = model.add("Add", rows, model.add("MatMul", rows, model.weight(48, 48)))
    back = model.add("Transpose", rows, perm=[0, 2, 1])
    model.conv(back, 48, 8, 1)
    return model


def test_products_of_a_graph_with_convolutions_run_on_the_npu(tmp_path: Path) -> None:
    finished = on_npu(_sequences_and_rows().save(tmp_path))
    assert finished.result.is_passed


def test_what_lies_as_rows(tmp_path: Path) -> None:
    graph = read_model(_sequences_and_rows().save(tmp_path))
    rows = tensors_of_rows(graph)
    for node in graph.nodes:
        if node.op_type != "Relu" and node.op_type != "Transpose":
            assert (node.outputs[0] in rows) == (node.op_type != "Conv")
    first, second = (node for node in graph.nodes if node.op_type == "Transpose")
    assert (first.outputs[0] in rows, second.outputs[0] in rows) == (True, False)


def test_a_tensor_that_both_want_lies_as_a_sequence(tmp_path: Path) -> None:
    """The product copies it into rows, and its result back."""
    model = Model(1, 24, 24)
    found = model.conv("x", 24, 24, 1)
    model.add("Add", found, model.add("MatMul", found, model.weight(24, 24)))
    path = model.save(tmp_path)
    assert not tensors_of_rows(read_model(path))
    on_npu(path)


def test_windows_of_channels_last_are_rows(tmp_path: Path) -> None:
    """Cuts, joints and padding of any axis lie as what they are made of: a picture rolled by two columns."""
    model = Model(1, 8, 8, 16)
    rows = model.add("MatMul", "x", model.weight(16, 24))
    ends = [model.constant(np.array([value])) for value in (0, 2, 8, 2)]
    first, last = (model.add("Slice", rows, *ends[low : low + 2], ends[3]) for low in (0, 1))
    rolled = model.add("Concat", last, first, axis=2)
    padded = model.add("Pad", rolled, model.constant(np.array([0, 1, 0, 0, 0, 1, 0, 0])))
    model.add("MatMul", padded, model.weight(24, 8))
    path = model.save(tmp_path)
    graph = read_model(path)
    assert {len(graph.tensors[tensor].shape) for tensor in tensors_of_rows(graph)} == {4}
    assert len([node for node in graph.nodes if set(node.outputs) <= tensors_of_rows(graph)]) == 6
    on_npu(path)


@pytest.mark.parametrize("kind", ["products", "convolutions"])
def test_weights_of_8_bits_run_on_the_npu_in_fp16(kind: str, tmp_path: Path) -> None:
    """What ONNX Runtime's dynamic quantisation makes: scales are found at run time."""
    model = Model(12, 32) if kind == "products" else Model(1, 8, 12, 12)
    if kind == "products":
        first = model.add("MatMul", "x", model.weight(32, 64))
        model.add("MatMul", model.add("Relu", first), model.weight(64, 24))
    else:
        first = model.conv("x", 8, 16, 3, 3, pads=[1, 1, 1, 1])
        model.conv(model.add("Relu", first), 16, 24, 1, 1)
    path = tmp_path / "dynamic.onnx"
    quantize_dynamic(model.save(tmp_path), path, weight_type=QuantType.QUInt8)
    finished = on_npu(path)
    assert finished.result.is_passed
    assert any("not rounded to 8 bits" in note.text for note in finished.program.notes)
