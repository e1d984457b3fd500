"""Weights that the reference gets from a graph, not from its source."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx import serialization
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import ReferenceSession


def test_weights_whose_elements_are_not_in_order_stay_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are copied for ONNX Runtime, which keeps no copy alive: what is allocated next would be them."""
    monkeypatch.setattr(serialization, "INLINE_BYTES", 0)
    weights = np.arange(600 * 400, dtype=np.float32).reshape(600, 400)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "add")],
        "weights",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [600, 400])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [600, 400])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    read = read_model(path)
    turned = {tensor: np.asfortranarray(values) for tensor, values in read.constants.items()}
    held = replace(read, constants=turned)
    assert any(not values.flags.c_contiguous for values in turned.values())
    session = ReferenceSession(held, list(held.outputs))
    other = [np.full((600, 400), -1, np.float32) for _ in range(8)]
    (found,) = session.run({"x": np.zeros((600, 400), np.float32)})
    assert np.array_equal(found, weights)
    assert len(other) == 8
