"""What stays on the Host: steps of recurrent operators, which take longer here, and what hangs on digits that
fp16 has not."""

import math
from collections.abc import Mapping, Sequence

from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.operator_kinds import PAIRS, VIEWS
from npuviz.targets.rk3588.spec import RknnSpec

RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
FEWEST_TASKS = 7
"""Of a step of an LSTM: the product of its state, two tables, three products and a sum of gates; a GRU has no
fewer. Each waits for the one before."""


def recurrent_reason(graph: Graph, node: Node, spec: RknnSpec) -> HostReason:
    """The reason, with the times of one step of one direction: weights that CBUF does not hold come from DDR
    at every step, and the NPU's tasks are small."""
    directions = 2 if node.attributes.get("direction") in ("bidirectional", b"bidirectional") else 1
    held = node.inputs[2] if len(node.inputs) > 2 else -1
    weights = math.prod(graph.tensors[held].shape) // directions if held >= 0 else 0
    tasks = FEWEST_TASKS * spec.task_ns
    fetched = 2 * weights / spec.bytes_per_cycle * 1e9 / spec.npu_hz if 2 * weights > spec.cbuf_bytes else 0.0
    host = 2 * weights / spec.host_operations_per_ns
    npu = max(tasks, fetched)
    what = (
        "reads its weights from DDR again"
        if fetched > tasks
        else f"is {FEWEST_TASKS} tasks, one behind the other"
    )
    comparison = "longer than" if npu > host else "about as long as"
    return HostReason(
        f"each of its steps {what}, and takes {comparison} on the Host",
        f"{npu:,.0f} ns a step, {host:,.0f} ns on the Host",
        "a convolution or an attention instead, which do all steps at once",
    )


_INTO_ROUND = frozenset((*PAIRS, "Clip", "ReduceMax", "ReduceMin"))
"""Operators through which a rounded number is followed back."""
_NAN_MAKERS = frozenset(
    ("Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "LogSoftmax", "Pow", "Reciprocal", "Softmax", "Sqrt")
)
_MOVES = ("Concat", "Expand", "Gather", "Slice", "Split", "Tile", "Transpose")
_HANDS_ON = frozenset((*PAIRS, *VIEWS, *_MOVES, "Abs", "Cast", "Clip", "Exp", "Neg"))
"""Operators that hand a NaN on."""


def hangs_on_digits(graph: Graph, readers: Mapping[int, Sequence[int]], node: Node) -> bool:
    """Whether a Round reads what a node makes, through sums, products and limits: an error of fp16 becomes a
    whole step. Or whether it is a Where one of whose sides may be NaN where it is not chosen: EW's minimum
    and maximum with a NaN are NaN, so that the choice would let it through.

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
    """Whether some operator before a tensor makes NaN of numbers."""
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
