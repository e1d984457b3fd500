"""Small models built in code, for the ONNX tests."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph


def value(
    name: str, shape: list[int | str | None] | None, kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    functions: list[onnx.FunctionProto] | None = None,
    domains: dict[str, int] | None = None,
) -> Path:
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    model = helper.make_model(graph, opset_imports=imports, functions=functions or [])
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return path


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolution(path: Path) -> Path:
    """Conv with stored weights, batch normalisation, pooling, Reshape by a constant, light MatMul."""
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["lw_shape"], ["lw"], value=helper.make_tensor("v", 1, [1], [0.5])
        ),
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["c", "flat"], ["d"]),
        helper.make_node("MatMul", ["d", "lw"], ["y"], "head"),
    ]
    weights = {
        "w": random(4, 3, 3, 3),
        "scale": random(4),
        "bias": random(4),
        "mean": random(4),
        "var": np.abs(random(4)) + 1,
        "flat": np.array([0, -1], np.int64),
        "lw_shape": np.array([36, 500], np.int64),
    }
    return save(path, nodes, [value("x", ["n", 3, 8, 8])], [value("y", ["n", 500])], weights)


def read_the_same(
    path: Path, shapes: dict[str, tuple[int, ...]], *, form: ModelForm = AS_IT_IS, atol: float = 1e-5
) -> Graph:
    """Read a model, after its outputs were held against those of the file as it is."""
    graph, whole = read_model(path, form=form), read_model(path, optimize=False)
    given = {name: random(*shape) for name, shape in shapes.items()}
    found, wanted = (run_reference(each, given, each.outputs) for each in (graph, whole))
    names = [[one.tensors[tensor].name for tensor in made] for one, made in ((graph, found), (whole, wanted))]
    assert names[0] == names[1]
    for one, other in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=atol)
    return graph
