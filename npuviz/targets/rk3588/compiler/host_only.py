"""Decide what stays on the Host: large LSTMs of 8 bits, and operators that need more digits than fp16 has."""

import math
from collections.abc import Mapping, Sequence

from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.operator_kinds import PAIRS, VIEWS
from npuviz.targets.rk3588.spec import RknnSpec

DYNAMIC_LSTM = "DynamicQuantizeLSTM"


def dynamic_lstm_reason(graph: Graph, node: Node, spec: RknnSpec) -> HostReason:
    """Return why a DynamicQuantizeLSTM stays on the Host, with times of one step: the NPU reads weights from
    DDR."""
    shape = graph.tensors[node.inputs[2]].shape
    weights = math.prod(shape[1:])
    npu = 2 * weights / spec.bytes_per_cycle * 1e9 / spec.npu_hz
    return HostReason(
        "its state is rounded to 8 bits at run time, and the NPU would read its weights again at every step",
        f"{npu:,.0f} ns a step, {2 * weights / spec.host_operations_per_ns:,.0f} ns on the Host",
        "at most half as many hidden values, or an LSTM of floats",
    )


_INTO_ROUND = frozenset((*PAIRS, "Clip", "ReduceMax", "ReduceMin"))
"""Operators through which an error reaches a Round."""
_NAN_MAKERS = frozenset(
    ("Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "LogSoftmax", "Pow", "Reciprocal", "Softmax", "Sqrt")
)
_MOVES = ("Concat", "Expand", "Gather", "Slice", "Split", "Tile", "Transpose")
_HANDS_ON = frozenset((*PAIRS, *VIEWS, *_MOVES, "Abs", "Cast", "Clip", "Exp", "Neg"))
"""Operators whose result is NaN if an operand is."""


def hangs_on_digits(graph: Graph, readers: Mapping[int, Sequence[int]], node: Node) -> bool:
    """Return whether the errors or NaN of fp16 would change a node's result as a whole.

    That is so if a Round reads the result, through sums, products and limits: an error becomes a whole step.
    It is so for a Where with a side that may be NaN where it is not chosen: EW's minimum and maximum with a
    NaN are NaN, so that the choice would let it through.

    readers  of each tensor
    """
    if node.op_type == "Where":
        return any(_may_be_nan(graph, tensor) for tensor in node.inputs[1:])
    waiting, seen = [node], set[int]()
    while waiting:
        here = waiting.pop()
        if here.op_type == "Round":
            return True
        if here.op_type in _INTO_ROUND and here.id not in seen:
            seen.add(here.id)
            waiting += [graph.nodes[reader] for reader in readers[here.outputs[0]]]
    return False


def _may_be_nan(graph: Graph, tensor: int) -> bool:
    """Return whether some operator before a tensor makes NaN of numbers."""
    waiting, seen = [tensor], set[int]()
    while waiting:
        here = waiting.pop()
        if here < 0 or here in seen or graph.tensors[here].producer < 0:
            continue
        seen.add(here)
        producer = graph.nodes[graph.tensors[here].producer]
        if producer.op_type in _NAN_MAKERS:
            return True
        if producer.op_type in _HANDS_ON:
            waiting += producer.inputs
    return False
