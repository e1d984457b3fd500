"""Finds inputs of a model that are parameters rather than data (shapes, axes, counts), and makes them
constants.

A program of a chip has fixed sizes, so such inputs are made constants with the values given for one run,
as a just-in-time compiler does.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import onnx

MAX_PARAMETER_ELEMENTS = 64
"""A larger array counts as data, whatever reads it."""

PARAMETERS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Operator -> positions of the inputs that determine sizes or how the operator works."""
WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "BatchNormalization": (1, 2, 3, 4),
    "Conv": (1, 2),
    "ConvInteger": (1, 2, 3),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "DequantizeLinear": (1, 2),
    "GRU": (1, 2, 3),
    "Gemm": (1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 7),
    "LayerNormalization": (1, 2),
    "MatMul": (1,),
    "MatMulInteger": (1, 2, 3),
    "PRelu": (1,),
    "QLinearConv": (1, 2, 3, 4, 5, 6, 7, 8),
    "QLinearMatMul": (1, 2, 3, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3),
}
"""Operator -> positions of the inputs that are weights in networks."""
_DATA_FREE = frozenset(("Shape", "Size"))
"""Operators whose results do not depend on values, so that their inputs are no parameters."""


def parameter_inputs(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> list[str]:
    """Return the graph inputs that some node needs as a parameter, directly or through other nodes.

    values  of the inputs of this run; large ones are never parameters
    """
    nodes = list(all_nodes(model.graph))
    producers = {name: node for node in nodes for name in node.output if name}
    wanted: list[str] = []
    for node in nodes:
        positions = PARAMETERS.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ()
        wanted += [node.input[at] for at in positions if at < len(node.input) and node.input[at]]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        producer = producers.get(name)
        if producer is not None and producer.op_type not in _DATA_FREE:
            wanted += [item for item in producer.input if item]
            for graph in subgraphs(producer):
                wanted += [value.name for value in graph.output]
    return [
        value.name
        for value in model.graph.input
        if value.name in seen
        and value.name in values
        and values[value.name].size <= MAX_PARAMETER_ELEMENTS
        and values[value.name].dtype.kind not in "OSU"
    ]


def weight_inputs(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> list[str]:
    """Return the graph inputs with values that nodes read only at positions of weights."""
    weights: set[str] = set()
    data = {value.name for value in model.graph.output}
    for node in all_nodes(model.graph):
        positions = WEIGHTS.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ()
        for at, name in enumerate(node.input):
            (weights if at in positions else data).add(name)
    names = [value.name for value in model.graph.input]
    return [name for name in names if name in weights - data and name in values]


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs that a node has as attributes."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        found += attribute.graphs
    return found


def specialise(
    model: onnx.ModelProto, values: Mapping[str, np.ndarray], weights: Collection[str] = ()
) -> tuple[onnx.ModelProto, list[str]]:
    """Return a copy of the model in which parameters are initialisers with the given values, and their names.

    weights  further inputs to make initialisers
    Open dimensions of the other inputs become those of their values.
    """
    names = list(dict.fromkeys((*parameter_inputs(model, values), *weights)))
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    for index in reversed(range(len(graph.input))):
        value = graph.input[index]
        if value.name in names:
            del graph.input[index]
            graph.initializer.append(onnx.numpy_helper.from_array(np.array(values[value.name]), value.name))
        elif value.name in values and value.type.HasField("tensor_type"):
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in values[value.name].shape:
                shape.dim.add(dim_value=size)
    # Initialisers that are no inputs need IR version 4.
    made.ir_version = max(made.ir_version, 4)
    return made, names
