"""Windows over three dimensions, written as those over two, compute what ONNX Runtime computes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.contrib.volumes import spans_volume
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

ALL = ModelForm(whole=lambda _: False)
SHAPE = (2, 4, 9, 8, 7)


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _written(folder: Path, node: onnx.NodeProto, opset: int = 17, **known: np.ndarray) -> Graph:
    """The model with the operators written out, after its result was held against that of the file."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 5)],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    x = {"x": _floats(*SHAPE)}
    whole, written = read_model(path, optimize=False), read_model(path, form=ALL)
    expected = run_reference(whole, x, whole.outputs)[whole.outputs[0]]
    found = run_reference(written, x, written.outputs)[written.outputs[0]]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return written


def _has_no_volume(graph: Graph) -> bool:
    windows = [node for node in graph.nodes if node.op_type in ("Conv", "MaxPool", "AveragePool")]
    return all(len(graph.tensors[node.inputs[0]].shape) == 4 for node in windows)


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [1, 2, 1]}, {"pads": [1, 0, 1, 0, 0, 0]}, {"group": 2}]
)
def test_kernels_whose_size_only_the_weights_tell(attributes: dict[str, Any], tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "c", **attributes)
    assert spans_volume(node)
    group = int(attributes.get("group", 1))
    assert _has_no_volume(_written(tmp_path, node, w=_floats(6, SHAPE[1] // group, 3, 3, 1)))


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((3, 3, 3), {"pads": [1] * 6}),
        ((3, 1, 1), {"pads": [0, 0, 0, 2, 0, 1], "strides": [2, 1, 1]}),
        ((2, 3, 2), {"dilations": [3, 1, 2], "strides": [1, 2, 1]}),
        ((3, 2, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 3, 1]}),
        ((2, 2, 4), {"auto_pad": "SAME_LOWER"}),
        ((3, 3, 1), {"group": 2, "pads": [1, 1, 0, 1, 1, 0]}),
        ((3, 3, 1), {"group": 4}),
    ],
)
@pytest.mark.parametrize("opset", [8, 17])
def test_convolutions(
    tmp_path: Path, kernel: tuple[int, ...], attributes: dict[str, Any], opset: int
) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], "n", kernel_shape=kernel, **attributes)
    weights = _floats(8, 4 // attributes.get("group", 1), *kernel)
    assert _has_no_volume(_written(tmp_path, node, opset, w=weights, b=_floats(8)))


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 3, 3], "pads": [1] * 6}),
        ("MaxPool", {"kernel_shape": [3, 2, 2], "pads": [1, 0, 0, 1, 0, 0], "strides": [2, 1, 1]}),
        ("MaxPool", {"kernel_shape": [2, 3, 3], "ceil_mode": 1, "strides": [2, 2, 2]}),
        ("MaxPool", {"kernel_shape": [2, 2, 1], "dilations": [4, 1, 1]}),
        ("MaxPool", {"kernel_shape": [4, 2, 2], "auto_pad": "SAME_UPPER", "strides": [3, 2, 2]}),
        ("AveragePool", {"kernel_shape": [3, 2, 2], "strides": [3, 2, 2]}),
        ("AveragePool", {"kernel_shape": [2, 2, 1]}),
    ],
)
def test_pools(tmp_path: Path, kind: str, attributes: dict[str, Any]) -> None:
    assert _has_no_volume(_written(tmp_path, helper.make_node(kind, ["x"], ["y"], "n", **attributes)))


def test_means_of_fewer_elements_at_the_edges_stay(tmp_path: Path) -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], "n", kernel_shape=[3, 3, 3], pads=[1] * 6)
    assert not _has_no_volume(_written(tmp_path, node))
