"""Small ONNX models of one or two nodes, run on the simulated chip and compared with ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from npuviz.workbench.onnx_backend.execution import Execution, ExecutionOptions, execute

TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


def values(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Reproducible values: normal floats, small integers."""
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype[0] == "u" else -9, 30, shape).astype(dtype)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    stored: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model whose inputs have the shapes of the given arrays; shapes of outputs are inferred."""
    ends = [helper.make_tensor_value_info(n, TYPES[str(a.dtype)], a.shape) for n, a in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    initial = [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()]
    graph = helper.make_graph(list(nodes), "case", ends, results, initial)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(made)
    for result in inferred.graph.output:
        if not result.type.tensor_type.elem_type:
            result.type.tensor_type.elem_type = ends[0].type.tensor_type.elem_type
    return inferred


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by spaces, "-" is an absent input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


def check(
    made: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    tolerance: float = 1e-4,
    preset: str = "",
    settings: Mapping[str, str] | None = None,
    uses_runtime: bool = True,
) -> Execution:
    """Run on the chip and in ONNX Runtime; outputs must agree and nothing may run on the host.

    tolerance     relative to the largest expected magnitude; 0 for equality
    uses_runtime  False: onnx's reference evaluator instead of ONNX Runtime
    """
    options = ExecutionOptions("neuroncore", preset, settings or {})
    done = execute(made, list(inputs.values()), options)
    if uses_runtime:
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    else:
        session = ReferenceEvaluator(made)
    assert not done.host_nodes
    for actual, expected in zip(done.outputs, session.run(None, dict(inputs)), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        wide = np.asarray(expected, dtype=np.float64)
        scale = float(np.abs(wide).max(initial=0.0))
        np.testing.assert_allclose(actual.astype(np.float64), wide, rtol=0, atol=tolerance * scale)
    return done
