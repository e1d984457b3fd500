"""Classifies models by their graph, and counts runs whose Host share exceeds the goal of the class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from npuviz.onnx.host_work import host_work
from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph, Node

CNN, TRANSFORMER, RECURRENT, OTHER = CLASSES = ("CNN", "transformer", "recurrent", "other")

GOALS: Mapping[str, float] = {CNN: 0.10, TRANSFORMER: 0.25, RECURRENT: 0.25, OTHER: 0.25}
"""Largest share of a run on the Host; the last two classes have the goal of transformers."""

_CONVOLUTIONS = frozenset(("Conv", "ConvInteger", "ConvTranspose", "FusedConv", "QLinearConv", "DeformConv"))
_RECURRENT = frozenset(("DynamicQuantizeLSTM", "GRU", "LSTM", "Loop", "RNN", "Scan"))
_ATTENTION = frozenset(("Attention", "GroupQueryAttention", "MultiHeadAttention", "QAttention"))
_PRODUCTS = frozenset(("DynamicQuantizeMatMul", "Einsum", "FusedMatMul", "Gemm", "MatMul", "MatMulInteger",
                       "MatMulIntegerToFloat", "MatMulNBits", "QGemm", "QLinearMatMul"))  # fmt: skip
_CASTS = frozenset(
    ("Cast", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "Reshape", "Transpose")
)


def class_of(path: Path, settings: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> str:
    """Return the class of a model with these dimensions and inputs, without rewriting its operators; see
    `class_of_graph`."""
    dimensions = {name: int(value) for name, value in settings.items()}
    form = ModelForm(whole=lambda _: True)
    return class_of_graph(read_model(path, dimensions, given=Given(inputs), form=form))


def class_of_graph(graph: Graph) -> str:
    """Return the class by the operators with most multiply-adds: convolutions make a CNN, operators with a
    state (also loops) a recurrent network, matrix products a transformer if some multiply two computed
    tensors and there is a Softmax. Everything else is other."""
    work: Counter[str] = Counter()
    has_attention = False
    for node in graph.nodes:
        kind = _kind(node)
        if kind:
            work[kind] += host_work(graph, node).operations
        has_attention |= node.op_type in _ATTENTION or _multiplies_two_made(graph, node)
    if not work:
        return OTHER
    most = max(work, key=lambda kind: work[kind])
    if most != "product":
        return most
    is_weighed = any(node.op_type in ("Softmax", *_ATTENTION) for node in graph.nodes)
    return TRANSFORMER if has_attention and is_weighed else OTHER


def _kind(node: Node) -> str:
    if node.op_type in _CONVOLUTIONS:
        return CNN
    if node.op_type in _RECURRENT:
        return RECURRENT
    return "product" if node.op_type in _PRODUCTS | _ATTENTION else ""


def _multiplies_two_made(graph: Graph, node: Node) -> bool:
    """Return whether both operands of a product are computed."""
    if node.op_type not in ("MatMul", "FusedMatMul", "MatMulInteger", "QLinearMatMul"):
        return False
    second = 3 if node.op_type == "QLinearMatMul" else 1
    return all(_is_made(graph, node.inputs[place]) for place in (0, second))


def _is_made(graph: Graph, tensor: int) -> bool:
    """Return whether a tensor is computed, other than a weight in another type or shape."""
    while graph.tensors[tensor].producer >= 0:
        producer = graph.nodes[graph.tensors[tensor].producer]
        if producer.op_type not in _CASTS:
            return True
        tensor = producer.inputs[0]
    return tensor not in graph.constants


def goal_rows(runs: Sequence[tuple[str, str, float, float]]) -> list[list[str]]:
    """Return the cells of a table by class and target: runs, runs over the goal of their class, and of these
    the ones for which inputs and outputs alone exceed the goal, and the others.

    runs  (class, target, share of the Host, share of inputs and outputs on the Host)
    """
    found: list[list[str]] = []
    targets = list(dict.fromkeys(target for _, target, _, _ in runs))
    for name in CLASSES:
        for target in targets:
            of_it = [
                (host, exchanged) for kind, where, host, exchanged in runs if (kind, where) == (name, target)
            ]
            over = [exchanged for host, exchanged in of_it if host > GOALS[name]]
            short = sum(exchanged > GOALS[name] for exchanged in over)
            counts = (len(of_it), len(over), short, len(over) - short)
            found += [[name, target, *map(str, counts)]] if of_it else []
    totals = [sum(int(row[place]) for row in found) for place in range(2, 6)]
    return [*found, ["all", "all", *map(str, totals)]]
