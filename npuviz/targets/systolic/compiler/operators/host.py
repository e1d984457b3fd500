"""Operators that the cores do not run: a layer on the Host unit, with its cost stated."""

from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering


def host_cycles(lowering: Lowering, node: Node) -> int:
    """Assumed cycles of a host operator: a fixed part, and what it reads and writes at a fixed rate."""
    tensors = {index for index in (*node.inputs, *node.outputs) if index >= 0}
    moved = sum(lowering.storage(index).size_bytes for index in tensors)
    resources = lowering.resources
    return resources.host_cycles + -(-moved // resources.host_bytes_per_cycle)


def lower_on_host(lowering: Lowering, node: Node, reason: str) -> None:
    """Add the Host layer of a node and tell why it is there."""
    cycles = host_cycles(lowering, node)
    name = node.name or node.op_type
    lowering.builder.add_host_layer(name, node.id, cycles)
    lowering.add_layer(node, node.inputs, node.outputs, is_host=True)
    resources = lowering.resources
    lowering.note(
        "host-operator",
        f"{node.op_type} {name} runs on the host: {reason}; assumed {cycles} cycles "
        f"({resources.host_cycles} and {resources.host_bytes_per_cycle} bytes a cycle)",
        node.id,
    )
