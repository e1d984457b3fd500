"""Classes of operators that several compilers and checks use."""

import numpy as np

from npuviz.program.graph import Graph, Node

RANDOM = frozenset(
    ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial")
)
"""Operators that draw random numbers."""


def draws(graph: Graph, node: Node) -> bool:
    """Return whether a node draws random numbers."""
    if node.op_type in RANDOM:
        return True
    if node.op_type != "Dropout" or len(node.inputs) < 3 or node.inputs[2] < 0:
        return False
    is_training, ratio = graph.constants.get(node.inputs[2]), graph.constants.get(node.inputs[1])
    drops = ratio is None or bool(np.any(ratio))
    return drops and (is_training is None or bool(np.any(is_training)))


REQUANTIZING = frozenset(("QuantizeLinear", "QLinearMatMul", "QLinearConv", "DynamicQuantizeLinear"))
"""Operators that round real numbers to integers."""

MOVING = frozenset(
    (
        "Abs", "ArgMax", "ArgMin", "CenterCropPad", "Clip", "Compress", "Concat", "ConstantOfShape",
        "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
        "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "ReduceMax", "ReduceMin",
        "Relu", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Shape", "Sign", "Size",
        "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze",
        "Where",
    )
)  # fmt: skip
"""Operators that do not round: they move, choose or negate elements."""


def is_requantized(graph: Graph, tensor: int) -> bool:
    """Return whether a computed tensor holds real numbers rounded to 8-bit integers."""
    found = graph.tensors[tensor]
    return found.dtype in ("int8", "uint8") and graph.nodes[found.producer].op_type in REQUANTIZING


def holds_requantized(graph: Graph, tensor: int) -> bool:
    """Return whether a computed 8-bit tensor holds such integers, or was moved or chosen from a tensor that
    does: what that is off by, it is off by."""
    while graph.tensors[tensor].dtype in ("int8", "uint8") and graph.tensors[tensor].producer >= 0:
        node = graph.nodes[graph.tensors[tensor].producer]
        if node.op_type in REQUANTIZING:
            return True
        if node.op_type not in MOVING or not node.inputs or node.inputs[0] < 0:
            return False
        tensor = node.inputs[0]
    return False


def computed_tensors(graph: Graph) -> list[int]:
    """Return the computed tensors of numbers, in the order of the nodes."""
    return [
        index
        for node in graph.nodes
        for index in node.outputs
        if index >= 0 and graph.tensors[index].dtype not in ("string", "opaque")
    ]
