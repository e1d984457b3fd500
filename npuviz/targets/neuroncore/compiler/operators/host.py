"""Operators that the engines do not run: a call of the Host unit, with its cost stated."""

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder


def lower_on_host(builder: Builder, node: Node, reason: str) -> None:
    """Emit the Host call of a node and tell why it is there."""
    with builder.node(node.id):
        builder.host(node)
    spec = builder.spec
    builder.note(
        "host-operator",
        f"{node.op_type} {node.name or f'(node {node.id})'} runs on the host: {reason}; assumed "
        f"{spec.host_call_ns:g} ns and {spec.host_bytes_per_ns:g} bytes a ns",
        node.id,
    )
