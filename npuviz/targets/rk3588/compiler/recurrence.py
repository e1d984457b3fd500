"""Why steps of recurrent operators are the Host's: what one takes there, and what it would take the NPU."""

import math

from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
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
