"""Estimates the cost of an operator on the Host: operations, bytes and calls, and the time they take.

The model is one core of a general processor that runs an inference runtime: each operator is called once,
those inside a Loop or Scan once per iteration; arithmetic and memory accesses overlap, and the slower of both
counts.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node

_VIEWS = frozenset(("Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"))
"""Operators that move no data: the result is the same memory under another shape, or a few numbers."""

_SAME_MEMORY = _VIEWS - {"Shape", "Size"}

_PICKING = frozenset(("Gather", "GatherElements", "GatherND", "Slice", "Compress", "TopK"))
"""Operators that read only as many bytes of their first input as they write (TopK reads all of it)."""

_PRODUCTS = frozenset(("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul"))
_RECURRENT = frozenset(("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"))

_ATTENTION: Mapping[str, int] = {"Attention": 4, "GroupQueryAttention": 3, "MultiHeadAttention": 6}
"""Attention operators -> position of the input with earlier keys."""

_CONTROL = frozenset(("If", "Loop", "Scan", "SequenceMap"))

_FUNCTIONS = frozenset(
    ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BiasGelu", "Celu", "Cos", "Cosh", "Div", "Elu",
     "Erf", "Exp", "FastGelu", "Gelu", "HardSwish", "LayerNormalization", "Log", "LogSoftmax", "Mish", "Mod",
     "Pow", "Reciprocal", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Tan",
     "Tanh")
)  # fmt: skip
FUNCTION_OPERATIONS = 10
"""Assumed: operations of a function that processors have no instruction for (a polynomial and its
preparation)."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """Arithmetic operations (a multiply-add is two), bytes read and written, operators called.

    held_bytes, turns  bytes that each of several iterations reads again (from memory, if they exceed the
    cache)
    """

    operations: int
    num_bytes: int
    calls: int
    held_bytes: int = 0
    turns: int = 1

    @property
    def text(self) -> str:
        """The work as text for the program list."""
        calls = f", {self.calls:,} operators called" if self.calls != 1 else ""
        return f"{self.operations:,} operations, {self.num_bytes:,} bytes{calls}"


def host_work(graph: Graph, node: Node, bytes_of: Callable[[int], int] | None = None) -> HostWork:
    """Estimate the work of a node on the Host.

    bytes_of  tensor -> bytes in memory; None: by its type in the graph
    An If counts its longer branch, a Loop its trip count, or the number of gathered results, else one
    iteration.
    """

    def declared(tensor: int) -> int:
        found = graph.tensors[tensor]
        return found.num_elements * numpy_dtype(found.dtype).itemsize

    if keeps_order(graph, node):
        return HostWork(0, 0, 1)
    size = bytes_of or declared
    moved = _moved(node, size) - _kept_in_place(graph, node, size)
    graphs = [value for value in node.attributes.values() if isinstance(value, bytes)]
    bodies = [onnx.GraphProto.FromString(value) for value in graphs] if node.op_type in _CONTROL else []
    if not bodies:
        held, steps = _held(graph, node, size)
        return HostWork(_operations(graph, node), moved, 1, held, steps)
    read = [graph.tensors[index] for index in node.inputs if index >= 0]
    known = {tensor.name: tensor.num_elements for tensor in read}
    own = node.inputs[: len(node.inputs) - int(node.attributes.get("captured_inputs", 0))]
    state = max((graph.tensors[index].num_elements for index in own if index >= 0), default=1)
    turns = _turns(graph, node)
    calls, operations = max(_body_work(body, known, state) for body in bodies)
    scanned = own[-int(node.attributes.get("num_scan_inputs", 1)) :] if node.op_type == "Scan" else ()
    again = sum(size(index) for index in set(node.inputs).difference(scanned) if index >= 0)
    return HostWork(turns * operations, moved + (turns - 1) * again, 1 + turns * calls)


def keeps_order(graph: Graph, node: Node) -> bool:
    """Return whether a Transpose moves axes of size 1 only, so that elements keep their order in memory."""
    if node.op_type != "Transpose" or node.domain not in ("", "ai.onnx"):
        return False
    shape = graph.tensors[node.inputs[0]].shape
    order = node.attributes.get("perm") or range(len(shape))[::-1]
    moved = [axis for axis in order if shape[axis] > 1]
    return moved == sorted(moved)


def gives_same_memory(graph: Graph, node: Node) -> bool:
    """Return whether a node returns its input's elements in the same order, under another shape."""
    return node.op_type in _SAME_MEMORY or keeps_order(graph, node)


def _moved(node: Node, size: Callable[[int], int]) -> int:
    """Return the bytes that a node reads and writes."""
    written = sum(size(index) for index in node.outputs if index >= 0)
    if node.op_type in _VIEWS:
        return 0
    read = [size(index) for index in dict.fromkeys(node.inputs) if index >= 0]
    if node.op_type in _PICKING and node.op_type != "TopK" and read:
        read[0] = min(read[0], written)
    return written + sum(read)


def _held(graph: Graph, node: Node, size: Callable[[int], int]) -> tuple[int, int]:
    """Return the bytes of the weights that each step of a recurrent operator reads again, and the number of
    steps in all directions; (0, 1) for other operators."""
    names = [*node.inputs, -1, -1, -1]
    again = names[2] if node.op_type in _RECURRENT else -1
    sizes: tuple[int, ...] = graph.tensors[again].shape if again >= 0 else ()
    if not sizes:
        return 0, 1
    directions, steps = sum(sizes[:1]) or 1, sum(graph.tensors[names[0]].shape[:1]) or 1
    return size(again) // directions, directions * steps


def _kept_in_place(graph: Graph, node: Node, size: Callable[[int], int]) -> int:
    """Return the bytes of a cache of fixed length that an attention operator need not write again."""
    first = _ATTENTION.get(node.op_type, 0)
    kept = 0
    for past, present in (
        zip(node.inputs[first : first + 2], node.outputs[1:3], strict=False) if first else ()
    ):
        if past >= 0 and present >= 0 and graph.tensors[past].shape == graph.tensors[present].shape:
            new = sum(graph.tensors[node.inputs[0]].shape[-2:-1])
            rows = max(1, graph.tensors[past].shape[2])
            kept += size(present) * max(0, rows - new) // rows
    return kept


def _keys(graph: Graph, node: Node) -> int:
    """Return the number of keys that an attention operator multiplies its queries with."""
    present = node.outputs[1] if len(node.outputs) > 1 else -1
    if present >= 0 and len(graph.tensors[present].shape) == 4:
        return graph.tensors[present].shape[2]
    key = next((index for index in node.inputs[1:2] if index >= 0), -1)
    shape = graph.tensors[key].shape if key >= 0 else ()
    return shape[-2] if len(shape) > 1 else 1


def _operations(graph: Graph, node: Node) -> int:
    """Return the operations of a node without subgraphs."""
    tensors = graph.tensors
    shapes = [tensors[index].shape for index in node.inputs if index >= 0]
    made = max((tensors[index].num_elements for index in node.outputs if index >= 0), default=0)
    op_type = node.op_type
    if op_type in _VIEWS:
        return 0
    if op_type in ("Conv", "ConvInteger", "QLinearConv", "FusedConv") and len(shapes) > 1:
        kernel = shapes[3] if op_type == "QLinearConv" and len(shapes) > 3 else shapes[1]
        return 2 * made * math.prod(kernel[1:])
    if op_type in _ATTENTION and shapes and len(shapes[0]) > 1:
        return 4 * math.prod(shapes[0]) * _keys(graph, node)
    if op_type == "ConvTranspose" and len(shapes) > 1:
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if op_type in _PRODUCTS and shapes and shapes[0]:
        is_turned = op_type == "Gemm" and node.attributes.get("transA")
        return 2 * made * shapes[0][0 if is_turned else -1]
    if op_type in _RECURRENT and len(shapes) > 2:
        rows = math.prod(shapes[0][:2])
        return 2 * rows * (math.prod(shapes[1]) + math.prod(shapes[2]))
    read = max((math.prod(shape) for shape in shapes), default=0)
    if op_type in _PICKING and op_type != "TopK":
        read = 0
    count = max(made, read)
    if op_type in ("TopK", "Unique"):
        return count * max(1, math.ceil(math.log2(max(2, count))))
    return count * (FUNCTION_OPERATIONS if op_type in _FUNCTIONS else 1)


def _turns(graph: Graph, node: Node) -> int:
    """Return how often the body of a node runs."""
    tensors = graph.tensors
    if node.op_type == "Scan":
        sizes = [tensors[index].shape for index in node.inputs if index >= 0]
        scanned = sizes[-int(node.attributes.get("num_scan_inputs", 1)) :]
        return max(1, scanned[0][0]) if scanned and scanned[0] else 1
    if node.op_type != "Loop":
        return 1
    count = graph.constants.get(node.inputs[0]) if node.inputs and node.inputs[0] >= 0 else None
    given = int(np.asarray(count).reshape(-1)[0]) if count is not None and np.size(count) else 0
    carried = len(node.inputs) - 2 - int(node.attributes.get("captured_inputs", 0))
    scanned = [tensors[index].shape[:1] for index in node.outputs[carried:] if index >= 0]
    shown = max((shape[0] for shape in scanned if shape), default=0)
    # A trip count of 2**31 or more stands for "unlimited"; the number of gathered results is then the best
    # estimate.
    return max(1, shown or (given if 0 < given < 1 << 31 else 1))


def _body_work(body: onnx.GraphProto, known: Mapping[str, int], state: int) -> tuple[int, int]:
    """Return the calls and operations of one iteration of a body; `state` is used for unknown numbers of
    elements."""
    sizes = dict(known) | {each.name: int(np.prod(each.dims)) for each in body.initializer}
    calls = operations = 0
    for node in body.node:
        if node.op_type == "Constant":
            continue
        inner = [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
        counts = [_body_work(graph, sizes, state) for graph in inner]
        calls += 1 + max((count for count, _ in counts), default=0)
        operations += max((count for _, count in counts), default=0)
        elements = max((sizes.get(name, state) for name in node.input if name), default=state)
        factor = FUNCTION_OPERATIONS if node.op_type in _FUNCTIONS else 1
        operations += elements * (2 if node.op_type in _PRODUCTS else factor)
    return calls, operations


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor that runs Host operators.

    name         of the product
    call_ns      time for a call from the accelerator and back
    operator_ns  additional time for each further operator of a call
    operations_per_ns, bytes_per_ns  of one core
    cache_bytes  size of the last-level cache; larger data is read from memory in each iteration
    """

    name: str
    call_ns: float
    operator_ns: float
    operations_per_ns: float
    bytes_per_ns: float
    cache_bytes: int = 1 << 62

    def nanoseconds(self, work: HostWork) -> float:
        """Return the time of one Host call."""
        again = (work.turns - 1) * work.held_bytes if work.held_bytes > self.cache_bytes else 0
        moved = work.num_bytes + again
        busy = max(work.operations / self.operations_per_ns, moved / self.bytes_per_ns)
        return self.call_ns + (work.calls - 1) * self.operator_ns + busy
