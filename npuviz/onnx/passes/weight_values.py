"""Computes what follows from weights alone, of any size, in one run of ONNX Runtime.

Networks that normalise their weights (weight standardisation, weight norm) are exported with the arithmetic,
which no machine should do in every run. The library folds small tensors only, operator by operator in Python.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import onnx

from npuviz.onnx.draft import Draft
from npuviz.onnx.passes.weight_moves import MAX_BYTES

_NAMES = (
    *("Abs", "Add", "BatchNormalization", "Clip", "Concat", "Div", "Exp", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "Log"),
    *(
        "InstanceNormalization",
        "LayerNormalization",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "Pow",
        "Reciprocal",
    ),
    *(
        "ReduceL1",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "ReduceSumSquare",
        "Reshape",
    ),
    *(
        "Round",
        "Sigmoid",
        "Sign",
        "Slice",
        "Softmax",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tanh",
        "Transpose",
        "Unsqueeze",
    ),
)
_OPERATORS = frozenset(_NAMES)
"""Operators whose results are hardly larger than what they read; the others stay, so that what a model stores
in a small form (one repeated value, 8 bits) stays small."""
_FLOATS = ("float16", "float32", "float64")


def weight_values(draft: Draft) -> dict[str, np.ndarray]:
    """Compute the results of float operators that read only weights, or such results, as far as others read
    them."""
    nodes = _of_weights(draft)
    if not nodes:
        return {}
    made = {name for node in nodes for name in node.output if name}
    inside = {id(node) for node in nodes}
    read = {name for node in draft.proto.graph.node if id(node) not in inside for name in node.input}
    wanted = sorted(made & read)
    given = {name: draft.weights[name] for node in nodes for name in node.input if name in draft.weights}
    return _computed(draft.proto, nodes, given, wanted) if wanted else {}


def _of_weights(draft: Draft) -> list[onnx.NodeProto]:
    """Return the nodes that read weights alone, at least one of them of floats, in their order."""
    found: list[onnx.NodeProto] = []
    made: set[str] = set()
    for node in draft.proto.graph.node:
        names = [name for name in node.input if name]
        if node.op_type not in _OPERATORS or node.domain not in ("", "ai.onnx") or not names:
            continue
        weights = [draft.weights[name] for name in names if name in draft.weights]
        if len(weights) + sum(name in made for name in names) < len(names) or any(map(_stays, weights)):
            continue
        if names[0] in made or draft.weights[names[0]].dtype.name in _FLOATS:
            found.append(node)
            made.update(name for name in node.output if name)
    return found


def _stays(array: np.ndarray) -> bool:
    """Return whether a weight is too large to be held twice, or is one repeated value, of no memory."""
    return array.nbytes > MAX_BYTES or (array.size > 1 and not any(array.strides))


def _computed(
    proto: onnx.ModelProto,
    nodes: Iterable[onnx.NodeProto],
    given: Mapping[str, np.ndarray],
    wanted: Collection[str],
) -> dict[str, np.ndarray]:
    """Run nodes in ONNX Runtime; {} if it does not take them, since the model is right without it."""
    from npuviz.onnx.runtime import onnxruntime

    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = onnx.helper.make_graph(list(nodes), "weights", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        feed = {name: np.ascontiguousarray(array) for name, array in given.items()}
        results = [np.asarray(each) for each in session.run(list(wanted), feed)]
    except Exception:  # the runtime raises its own kinds; a run of the whole model reports them
        return {}
    return dict(zip(wanted, results, strict=True))
