"""Decide what stays on the Host: large LSTMs of 8 bits, and operators that need more digits than fp16 has."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

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
_INTO_PLACES = frozenset((*_INTO_ROUND, *VIEWS, "Concat", "Expand", "Slice", "Split", "Transpose"))
"""Operators through which an error reaches the places of a GridSample."""
_NAN_MAKERS = frozenset(
    ("Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "LogSoftmax", "Pow", "Reciprocal", "Softmax", "Sqrt")
)
_MOVES = ("Concat", "Expand", "Gather", "Slice", "Split", "Tile", "Transpose")
_HANDS_ON = frozenset((*PAIRS, *VIEWS, *_MOVES, "Abs", "Cast", "Clip", "Exp", "Neg"))
"""Operators whose result is NaN if an operand is."""


def hangs_on_digits(graph: Graph, readers: Mapping[int, Sequence[int]], node: Node) -> bool:
    """Return whether the errors or NaN of fp16 would change a node's result as a whole.

    That is so if a Round reads the result, through sums, products and limits: an error becomes a whole step.
    It is so if a GridSample takes places from it: fp16 holds a place of 640 to a sixth of a pixel.
    It is so for a Where with a side that may be NaN where it is not chosen: EW's minimum and maximum with a
    NaN are NaN, so that the choice would let it through.

    readers  of each tensor
    """
    if node.op_type == "Where":
        return any(_may_be_nan(graph, tensor) for tensor in node.inputs[1:])
    return _reaches(graph, readers, node, _INTO_ROUND, _is_rounded) or _reaches(
        graph, readers, node, _INTO_PLACES, _are_places
    )


def _is_rounded(reader: Node, tensor: int) -> bool:
    return reader.op_type == "Round"


def _are_places(reader: Node, tensor: int) -> bool:
    return reader.op_type == "GridSample" and reader.inputs[1] == tensor


def _reaches(
    graph: Graph,
    readers: Mapping[int, Sequence[int]],
    node: Node,
    through: Collection[str],
    is_end: Callable[[Node, int], bool],
) -> bool:
    """Return whether a node is such an end, or one reads its result, through some types of operators."""
    if is_end(node, -1):
        return True
    waiting, seen = [node], set[int]()
    while waiting:
        here = waiting.pop()
        if here.op_type not in through or here.id in seen:
            continue
        seen.add(here.id)
        behind = [graph.nodes[reader] for reader in readers[here.outputs[0]]]
        if any(is_end(each, here.outputs[0]) for each in behind):
            return True
        waiting += behind
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
