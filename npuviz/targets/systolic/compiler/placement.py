"""Gives every tensor its element type, order and place in DRAM; views share the place of their source."""

from collections.abc import Collection, Sequence
from math import prod

from npuviz.onnx.kept_nodes import kept_names, kept_nodes, only_among
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.targets.systolic.compiler.axis_order import choose_orders
from npuviz.targets.systolic.compiler.tiling.resources import round_up
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values.storage import FLOATS, Storage, stored_dtype

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"))
"""Operators that only rename or re-shape: they cost nothing when the bytes keep their order."""

ALIGNMENT = 256
"""Ref: systolic.md section 7, tensors start at multiples of 256."""


def place_tensors(
    graph: Graph, spec: SystolicSpec, dram: int, on_host: Collection[int] = ()
) -> tuple[tuple[Storage, ...], MemoryMap]:
    """Return storages by tensor id, and the memory map of the tensors with separate bytes.

    on_host  nodes that no core can run
    Order: constants, graph inputs, then results in node order (exact 64-bit sizes, systolic.md F24).
    """
    orders = choose_orders(graph, spec.config.layout)
    kept = nodes_in_fp32(graph, spec)
    roots = _roots(graph, orders, kept)
    own = _scales(graph) | only_among(graph, kept) | _only_host(graph, roots, on_host)
    dtypes = [
        tensor.dtype if tensor.id in own else element_type(tensor.dtype, spec) for tensor in graph.tensors
    ]
    addresses: dict[int, int] = {}
    allocations: list[Allocation] = []
    pointer = 0
    for index in _placing_order(graph):
        if roots[index] != index:
            continue
        size = prod(graph.tensors[index].shape) * numpy_dtype(dtypes[index]).itemsize
        addresses[index] = pointer
        allocations.append(Allocation(index, dram, pointer, size))
        pointer = round_up(pointer + max(1, size), ALIGNMENT)
    storages = tuple(
        Storage(
            tensor=tensor.id,
            shape=tensor.shape,
            dtype=dtypes[tensor.id],
            order=orders[tensor.id],
            root=roots[tensor.id],
            address=addresses[roots[tensor.id]],
            size_bytes=tensor.num_elements * numpy_dtype(dtypes[tensor.id]).itemsize,
        )
        for tensor in graph.tensors
    )
    return storages, MemoryMap(tuple(allocations))


def _only_host(graph: Graph, roots: Sequence[int], on_host: Collection[int]) -> set[int]:
    """Return tensors whose bytes only the Host writes and reads, which need not have the cores' type."""
    readers = graph.consumers()
    touching: dict[int, set[int]] = {}
    for tensor in graph.tensors:
        nodes = {*readers[tensor.id], tensor.producer} - {-1}
        found = touching.setdefault(roots[tensor.id], set())
        found |= {node for node in nodes if not _is_placed(graph.nodes[node], roots)}
    alone = {root for root, nodes in touching.items() if nodes and nodes.issubset(on_host)}
    return {tensor.id for tensor in graph.tensors if roots[tensor.id] in alone}


def _is_placed(node: Node, roots: Sequence[int]) -> bool:
    """Return whether a node's result has the bytes of its input."""
    return bool(node.outputs) and node.outputs[0] >= 0 and roots[node.outputs[0]] != node.outputs[0]


def nodes_in_fp32(graph: Graph, spec: SystolicSpec) -> frozenset[int]:
    """Return nodes that the Host computes in fp32, because the user named them; views compute nothing.

    Raises UsageError for a name that the graph has not.
    """
    found = kept_nodes(graph, kept_names(graph, spec.keep_fp32))
    return frozenset(node for node in found if graph.nodes[node].op_type not in VIEWS)


_SCALES = {
    "QuantizeLinear": (1,),
    "DequantizeLinear": (1,),
    "QLinearMatMul": (1, 4, 6),
    "QLinearConv": (1, 4, 6),
}
"""Inputs that are quantisation scales."""


def _scales(graph: Graph) -> set[int]:
    """Return the scales, which keep their type: rounding them would shift every result."""
    made = {node.outputs[1] for node in graph.nodes if node.op_type == "DynamicQuantizeLinear"}
    return made | {
        node.inputs[position]
        for node in graph.nodes
        for position in _SCALES.get(node.op_type, ())
        if position < len(node.inputs)
    }


def element_type(dtype: str, spec: SystolicSpec) -> str:
    """Return the element type in DRAM: the spec's for floating-point tensors, else that of the tensor."""
    if dtype not in FLOATS or spec.element_type in ("model", "int8"):
        return stored_dtype(dtype, 1 if spec.element_type == "int8" else spec.precision)
    return spec.element_type


def is_view(node: Node, graph: Graph, orders: list[tuple[int, ...]]) -> bool:
    """Return whether a node costs nothing: its result has the bytes of its input in the same order."""
    if node.op_type not in VIEWS and node.op_type != "Transpose":
        return False
    if any(index >= 0 for index in node.outputs[1:]):
        return False
    source, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if source.dtype != result.dtype or source.num_elements != result.num_elements:
        return False
    before, after = orders[source.id], orders[result.id]
    if node.op_type == "Transpose":
        perm = node.attributes.get("perm") or range(len(before) - 1, -1, -1)
        taken = [perm[axis] for axis in after if result.shape[axis] > 1]
        return taken == [axis for axis in before if source.shape[axis] > 1]
    if source.shape == result.shape and before == after:
        return True
    return _keeps_order(source.shape, before) and _keeps_order(result.shape, after)


def _keeps_order(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
    long_axes = [axis for axis in order if shape[axis] > 1]
    return long_axes == sorted(long_axes)


def _roots(graph: Graph, orders: list[tuple[int, ...]], kept: Collection[int]) -> list[int]:
    roots = [tensor.id for tensor in graph.tensors]
    for node in graph.nodes:
        if node.id not in kept and is_view(node, graph, orders):
            roots[node.outputs[0]] = roots[node.inputs[0]]
    return roots


def _placing_order(graph: Graph) -> list[int]:
    order = [tensor.id for tensor in graph.tensors if tensor.id in graph.constants]
    order += graph.inputs
    for node in graph.nodes:
        order += [index for index in node.outputs if index >= 0]
    order += [tensor.id for tensor in graph.tensors]
    return list(dict.fromkeys(order))
